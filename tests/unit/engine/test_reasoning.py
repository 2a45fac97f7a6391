"""Thinking and answer are told apart, wherever the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engine.reasoning import ReasoningParser, find_tags

TAGS = ("<think>", "</think>")


def parse(pieces: list[str], *, is_open: bool = False) -> tuple[str, str]:
    parser = ReasoningParser(TAGS, is_open=is_open)
    splits = [parser.push(piece) for piece in pieces] + [parser.flush()]
    return "".join(s.reasoning for s in splits), "".join(s.answer for s in splits)


@pytest.mark.parametrize(
    ("text", "is_open", "expected"),
    [
        ("<think>why</think>\n\nbecause", False, ("why", "because")),
        ("why</think>because", True, ("why", "because")),
        ("no thinking here", False, ("", "no thinking here")),
        ("a <think> later is text", False, ("", "a <think> later is text")),
        ("<think>never closed", False, ("never closed", "")),
        ("\n<think></think>x", False, ("", "x")),
        ("<thin", False, ("", "<thin")),
        ("a < b</think>\n", True, ("a < b", "")),
    ],
)
def test_thinking_is_told_from_the_answer(text: str, is_open: bool, expected: tuple[str, str]) -> None:
    assert parse([text], is_open=is_open) == expected
    assert parse(list(text), is_open=is_open) == expected


@given(
    thinking=st.text(alphabet="ab<>/think", max_size=30),
    answer=st.text(alphabet="ab<>/think", min_size=1, max_size=30),
    cut=st.integers(0, 80),
)
def test_a_cut_changes_nothing(thinking: str, answer: str, cut: int) -> None:
    text = f"<think>{thinking}</think>{answer}"

    assert parse([text[:cut], text[cut:]]) == parse([text])


def test_tags_are_recognised_in_a_template() -> None:
    assert find_tags("{{ content.split('</think>')[-1] }}") == TAGS
    assert find_tags("{{ content }}") is None
