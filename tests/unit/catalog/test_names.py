"""What a user may write for a model, and what never reaches a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.catalog.names import (
    CardName,
    FileName,
    HubName,
    is_safe_part,
    near_names,
    parse_card_name,
    parse_model_name,
    to_safe_part,
)
from appliance.core.errors import ModelNotFoundError


@pytest.mark.parametrize(
    "text, expected",
    [
        ("smollm2:135m-instruct-q4_1", CardName(name="smollm2", tag="135m-instruct-q4_1")),
        ("SmolLM2", CardName(name="smollm2", tag="")),
        ("/models/x.gguf", FileName(path=Path("/models/x.gguf"))),
        ("x.GGUF", FileName(path=Path("x.GGUF"))),
        ("./folder/x", FileName(path=Path("folder/x"))),
        ("file:///a%20b/x.gguf", FileName(path=Path("/a b/x.gguf"))),
        ("hf.co/User/Repo-GGUF:Q4_K_M", HubName(repository="User/Repo-GGUF", quantisation="Q4_K_M")),
        ("user/repo:Q8_0", HubName(repository="user/repo", quantisation="Q8_0")),
        ("user/repo", HubName(repository="user/repo", quantisation="")),
        ("https://huggingface.co/user/repo", HubName(repository="user/repo", quantisation="")),
    ],
)
def test_each_way_to_name_a_model_is_understood(text: str, expected: object) -> None:
    assert parse_model_name(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "  ", "a b", "a:b:c", "a:", ":b", "..", "name:..", "name:.", "a/b/c", "user/..", "x\0y",
     "a" * 65, "n:" + "t" * 65, "file://host/x.gguf", "hf.co/user", "user/repo:../x", "x;y", "é"],
)  # fmt: skip
def test_what_no_model_can_be_called_is_refused(text: str) -> None:
    with pytest.raises(ModelNotFoundError):
        parse_model_name(text)


@given(st.text(max_size=80))
def test_no_text_becomes_a_name_that_leaves_its_folder(text: str) -> None:
    try:
        name = parse_card_name(text)
    except ModelNotFoundError:
        return
    for part in (name.name, name.tag):
        assert "/" not in part
        assert part not in {".", ".."}
        assert len(part) <= 64
        assert part.isascii()


@given(st.text(max_size=200))
def test_any_text_can_be_made_a_safe_part(text: str) -> None:
    assert is_safe_part(to_safe_part(text))


def test_near_names_put_the_likeliest_first() -> None:
    known = ["smollm2:135m-instruct-q4_1", "qwen3:4b-q4_k_m", "qwen3:8b-q4_k_m", "gemma3:270m-q4_k_m"]
    assert near_names("smolm2", known)[0] == "smollm2:135m-instruct-q4_1"
    assert near_names("qwen3:4b", known)[0] == "qwen3:4b-q4_k_m"
    assert near_names("gema3", known) == ["gemma3:270m-q4_k_m"]
    assert near_names("zzzz", known) == []
