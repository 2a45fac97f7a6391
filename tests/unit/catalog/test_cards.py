"""Cards: the shipped ones hold together, and a bad one is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.catalog.cards import card_from_values, card_to_values, load_cards, read_card
from appliance.catalog.source_syntax import FileSource, HubSource, InlineSource, WheelSource, parse_source
from appliance.core.errors import ConfigError

GOOD = """
id = "tiny:f32"
family = "llama"
licence = "MIT"
capabilities = ["chat"]

[[files]]
name = "tiny.gguf"
sources = ["hf:u/r/tiny.gguf"]
"""


def test_the_shipped_cards_cover_what_is_promised() -> None:
    cards = load_cards()
    checked = {card.id for card in cards.values() if card.is_verified_here}
    assert checked == {"smollm2:135m-instruct-q4_1", "gemma3:270m-q4_k_m", "all-minilm:l6-v2"}
    assert sum("chat" in card.capabilities for card in cards.values()) >= 11
    assert sum("embed" in card.capabilities for card in cards.values()) >= 3
    assert sum("rerank" in card.capabilities for card in cards.values()) >= 2
    for card in cards.values():
        assert card.licence, card.id
        assert card.parameters > 0, card.id
        assert card.context_window > 0, card.id
        assert all(file.sources for file in card.files), card.id
        if card.is_verified_here:
            assert all(file.sha256 and file.size_bytes for file in card.files), card.id


def test_a_card_survives_being_written_and_read() -> None:
    for card in load_cards().values():
        assert card_from_values(card_to_values(card), "round trip") == card


@pytest.mark.parametrize(
    "change, expected",
    [
        ('famly = "x"', "there is no key 'famly'"),
        ("parameters = -1", "parameters is -1"),
        ('parameters = "many"', "parameters is 'many'"),
        ("context_window = true", "context_window is True"),
        ('capabilities = ["chatt"]', "capabilities"),
        ('reasoning_tags = ["<think>"]', "reasoning_tags"),
        ('is_verified_here = "yes"', "is_verified_here"),
        ('id = "../x:y"', "id is '../x:y'"),
        ('id = "Tiny:F32"', "id is 'Tiny:F32'"),
        ('id = "tiny"', "id is 'tiny'"),
        ('licence = ""', "licence"),
    ],
)
def test_a_bad_key_is_refused_and_named(change: str, expected: str) -> None:
    key = change.split(" ")[0]
    kept = [line for line in GOOD.splitlines() if not line.startswith(f"{key} =")]
    with pytest.raises(ConfigError) as caught:
        read_card("\n".join([change, *kept]), "cards/tiny.toml")
    assert expected in caught.value.message
    assert caught.value.message.startswith("cards/tiny.toml")


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        read_card('famly = "x"\n' + GOOD, "x")
    assert caught.value.hint == "did you mean 'family'?"


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ('"tiny.gguf"', '"../tiny.gguf"', "plain file name"),
        ('name = "tiny.gguf"', 'name = "tiny.gguf"\nsha256 = "ABC"', "64 lower-case"),
        ('name = "tiny.gguf"', 'name = "tiny.gguf"\nsize = 3', "there is no key 'size'"),
        ('"hf:u/r/tiny.gguf"', '"ftp:u/r"', "unknown scheme"),
        ('"hf:u/r/tiny.gguf"', '"hf:u/r/../x"', "hf:USER/REPO/FILE"),
        ("[[files]]", "[files]", "files"),
    ],
)
def test_a_bad_file_entry_is_refused(old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_card(GOOD.replace(old, new), "cards/tiny.toml")
    assert expected in caught.value.message


def test_cards_of_a_users_folder_are_added(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    assert load_cards(tmp_path)["tiny:f32"].licence == "MIT"
    (tmp_path / "bad.toml").write_text("id =")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML"):
        load_cards(tmp_path)


def test_sources_are_read_by_their_scheme() -> None:
    wheels = parse_source("pypi:a-b==1!2.0!x/y.gguf + c==1.0.post1!z")
    assert isinstance(wheels, WheelSource)
    assert [(part.requirement, part.member) for part in wheels.parts] == [
        ("a-b==1!2.0", "x/y.gguf"),
        ("c==1.0.post1", "z"),
    ]
    assert parse_source("hf:u/r/sub/f.gguf@v1") == HubSource(
        repository="u/r", file="sub/f.gguf", revision="v1"
    )
    assert parse_source("file:///a%20b") == FileSource(path=Path("/a b"))
    assert parse_source("file:rel/x") == FileSource(path=Path("rel/x"))
    assert parse_source("inline:{}") == InlineSource(text="{}")


@pytest.mark.parametrize(
    "text",
    ["", "pypi:", "pypi:a", "pypi:a==1", "pypi:-r x==1!y", "pypi:a>=1!y", "pypi:a==1 --x!y", "hf:u/r", "x"],
)
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_source(text)
