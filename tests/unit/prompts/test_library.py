"""A prompt that was used once cannot change unseen."""

from pathlib import Path

import pytest

from appliance.core.errors import ConfigError, InvalidRequestError
from appliance.prompts import shipped_prompts
from appliance.prompts.__main__ import main
from appliance.prompts.library import DIGESTS_FILE, read_prompts, seal_prompts


def written(folder: Path, version: str, text: str = "Say hi.", name: str = "") -> Path:
    path = folder / (name or f"greet-{version}.toml")
    path.write_text(
        f'id = "greet"\nversion = "{version}"\ndescription = "d"\nuser = "{text}"\n', encoding="utf-8"
    )
    return path


def test_the_highest_version_answers_when_none_is_named(tmp_path: Path) -> None:
    for version in ("1", "2", "10"):
        written(tmp_path, version)
    assert seal_prompts(tmp_path) == ["greet@1", "greet@10", "greet@2"]

    prompts = read_prompts(tmp_path)

    assert prompts.get("greet").version == "10"
    assert prompts.get("greet", "2").label == "greet@2"


@pytest.mark.parametrize(
    "prompt_id, version, said", [("gret", "", "no prompt"), ("greet", "7", "no version '7'")]
)
def test_what_is_not_there_is_refused(tmp_path: Path, prompt_id: str, version: str, said: str) -> None:
    written(tmp_path, "1")
    seal_prompts(tmp_path)

    with pytest.raises(InvalidRequestError, match=said):
        read_prompts(tmp_path).get(prompt_id, version)


def test_a_changed_template_is_refused_and_cannot_be_sealed_again(tmp_path: Path) -> None:
    written(tmp_path, "1")
    seal_prompts(tmp_path)
    written(tmp_path, "1", "Say bye.")

    for attempt in (read_prompts, seal_prompts):
        with pytest.raises(ConfigError) as caught:
            attempt(tmp_path)
        assert "no longer what it was" in caught.value.message
        assert "new version" in caught.value.hint


def test_line_ends_of_another_system_change_no_digest(tmp_path: Path) -> None:
    path = written(tmp_path, "1")
    seal_prompts(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    assert read_prompts(tmp_path).get("greet").user == "Say hi."


def test_a_template_without_a_digest_is_refused_with_the_command_that_adds_it(tmp_path: Path) -> None:
    written(tmp_path, "1")

    with pytest.raises(ConfigError) as caught:
        read_prompts(tmp_path)

    assert "python -m appliance.prompts" in caught.value.hint


def test_one_version_in_two_files_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "1")
    written(tmp_path, "1", name="again.toml")
    seal_prompts(tmp_path)

    with pytest.raises(ConfigError, match="another file"):
        read_prompts(tmp_path)


@pytest.mark.parametrize("text", ['"greet@1" = "short"', '"greet@1" = 7', "nonsense"])
def test_a_list_of_digests_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / DIGESTS_FILE).write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=DIGESTS_FILE):
        read_prompts(tmp_path)


def test_the_command_adds_digests_and_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "1")

    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "added greet@1\n"
    assert main([]) == 2


def test_every_shipped_prompt_is_what_its_digest_says() -> None:
    assert {"summary", "facts", "extract", "standalone-question", "other-wordings"} <= set(
        shipped_prompts().ids()
    )
