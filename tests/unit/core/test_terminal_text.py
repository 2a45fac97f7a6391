"""Text for a terminal loses what a terminal would obey, and nothing else."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.terminal_text import clean_for_terminal

OBEYED = [
    pytest.param("\x1b[2J", "[2J", id="clear the screen"),
    pytest.param("\x1b]52;c;aGk=\x07", "]52;c;aGk=", id="write the clipboard"),
    pytest.param("\x9b31m", "31m", id="C1 control sequence introducer"),
    pytest.param("over\rwritten", "overwritten", id="carriage return"),
    pytest.param("a\x08b\x7fc\x00", "abc", id="backspace, delete, nul"),
    pytest.param("\u202egnp.exe\u202c", "gnp.exe", id="right-to-left override"),
    pytest.param("\u2066x\u2069\u200e\u200f\u061c", "x", id="isolates and marks"),
    pytest.param("hi\U000e0048\U000e0049", "hi", id="tag characters"),
    pytest.param("\ud800", "\ufffd", id="lone surrogate"),
]


@pytest.mark.parametrize("hostile, shown", OBEYED)
def test_what_a_terminal_obeys_is_dropped(hostile: str, shown: str) -> None:
    assert clean_for_terminal(hostile) == shown


def test_text_of_people_stays_exact() -> None:
    text = "naïve\tcafé\n日本語 עברית 👩‍🚀 e\u0301 — “quoted” 100 %\u00a0"

    assert clean_for_terminal(text) == text


@given(st.text(st.characters(codec=None), max_size=60))
def test_no_control_character_is_left_and_cleaning_twice_changes_nothing(text: str) -> None:
    shown = clean_for_terminal(text)

    left = [character for character in shown if unicodedata.category(character) in {"Cc", "Cs"}]
    assert set(left) <= {"\n", "\t"}
    assert clean_for_terminal(shown) == shown


@given(st.text(max_size=40), st.integers(0, 40))
def test_a_sequence_cut_in_two_deltas_is_cleaned_like_a_whole_one(text: str, cut: int) -> None:
    parts = clean_for_terminal(text[:cut]) + clean_for_terminal(text[cut:])

    assert parts == clean_for_terminal(text)
