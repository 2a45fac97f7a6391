"""What may be shown and what may be edited: no control reaches a widget, and nothing else is lost."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.clean import shown, shown_cell, shown_line, typed


@given(st.text())
def test_nothing_shown_is_a_control_but_the_line_end(text: str) -> None:
    controls = {character for character in shown(text) if unicodedata.category(character) in ("Cc", "Cs")}

    assert controls <= {"\n"}


@given(st.text(), st.integers(1, 80))
def test_a_shown_line_is_one_line_within_its_limit(text: str, most: int) -> None:
    line = shown_line(text, most)

    assert "\n" not in line
    assert len(line) <= most


def test_marks_are_stacked_four_high_at_most() -> None:
    assert shown("e" + "\u0301" * 60) == "e" + "\u0301" * 4


def test_words_of_any_script_stay_as_they_are() -> None:
    text = "naïve 長江 🎉 مرحبا [/foo] [bold]x[/] &amp; <b>"

    assert shown(text) == text


def test_what_is_pasted_keeps_tabs_and_has_one_kind_of_line_end() -> None:
    assert typed("a\tb\r\nc\rd\x1b[31m\u202e") == "a\tb\nc\nd[31m"


@given(st.text(), st.integers(2, 60))
def test_a_cell_of_a_table_is_as_wide_as_it_must_be(text: str, cells: int) -> None:
    assert cell_len(shown_cell(text, cells)) == cells
