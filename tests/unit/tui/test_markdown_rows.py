"""Markdown as rows: all that was written stands there, inside the width, and can be copied as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from tui.widgets.answer_parts import Part, parts_of
from tui.widgets.markdown_rows import lay_out
from tui.widgets.rows import Row, wrapped

TABLE = "| name | km |\n|---|---:|\n| Danube | 2850 |\n| 長江 | 6300 |"
CHARACTERS = ["a", "b", " ", "e\u0301", "\u0e01\u0e31", "x\u200d", "👩\u200d💻", "⚙\ufe0f", "長", "🎉"]
SCRIPTS = st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=80).map("".join)


def rows_of(text: str, width: int = 40) -> list[Row]:
    return [row for part in parts_of(text) for row in lay_out(part, width).rows]


def shown(text: str, width: int = 40) -> list[str]:
    return [row.content.plain.rstrip() for row in rows_of(text, width)]


def test_a_table_is_as_wide_as_its_cells() -> None:
    assert shown(TABLE) == ["name   │   km", "───────┼─────", "Danube │ 2850", "長江   │ 6300"]


def test_a_table_with_more_columns_than_room_becomes_lines() -> None:
    assert shown(TABLE, 9) == ["name:", "Danube", "km: 2850", "", "name:", "長江", "km: 6300"]


def test_a_long_cell_is_broken_and_not_cut() -> None:
    text = "| a | b |\n|---|---|\n| x | one two three four five |"

    assert shown(text, 17) == ["a │ b", "──┼──────────────", "x │ one two three", "  │ four five"]


def test_a_long_line_of_code_is_broken_and_copied_whole() -> None:
    rows = rows_of("```\n" + "x" * 50 + "\n```", 24)

    assert [row.text for row in rows if row.kind == "code"] == ["x" * 20, "x" * 20, "x" * 10]
    assert [row.joins for row in rows if row.kind == "code"] == [None, "", ""]


@given(SCRIPTS, st.integers(12, 30))
def test_code_of_any_script_stands_there_whole(code: str, width: int) -> None:
    rows = rows_of(f"```\n{code}\n```", width)

    assert "".join(row.text for row in rows if row.kind == "code") == code
    assert all(row.content.cell_length <= width for row in rows)


@given(SCRIPTS, st.integers(2, 30))
def test_words_of_any_script_stand_there_whole(text: str, width: int) -> None:
    rows = wrapped(Content(text), width)

    assert "".join((row.joins or "") + row.text for row in rows).strip() == text.strip()
    assert all(row.content.cell_length <= width for row in rows)


def test_code_names_its_language_as_it_was_written() -> None:
    assert shown("```python title=a.py\nx\n```") == ["  ⧉ copy  python title=a.py", "  x"]


def test_lists_are_numbered_and_nested_as_written() -> None:
    assert shown("9. nine\n10. ten\n    - in it\n") == [" 9. nine", "10. ten", "    ◦ in it"]


def test_a_quote_has_a_bar_on_each_row() -> None:
    assert shown("> one two three four five six seven eight", 20) == [
        "▌ one two three four",
        "▌ five six seven",
        "▌ eight",
    ]


@pytest.mark.parametrize(
    "text", ["[a](http://b)", "<b>bold</b>", "&amp; &lt;", "![pic](x.png)", "[x]: http://y"]
)
def test_what_markdown_would_hide_stands_there(text: str) -> None:
    assert shown(text) == [text]


@given(st.text(st.sampled_from("ab *_`#>-|1.\n長🎉"), max_size=120), st.integers(1, 60))
def test_no_row_is_wider_than_the_screen(text: str, width: int) -> None:
    wide = max(width, 8)

    assert all(row.content.cell_length <= wide for row in rows_of(text, wide))


@pytest.mark.parametrize("marks", [">" * 21, ">" * 100, ">" * 300, "- " * 14, "- " * 150])
def test_text_below_many_levels_stands_there_inside_the_width(marks: str) -> None:
    rows = rows_of(f"{marks} secret", 40)

    assert "secret" in "".join(row.text for row in rows)
    assert all(row.content.cell_length <= 40 for row in rows)


def test_a_list_numbered_with_ones_is_counted_on_in_its_next_part() -> None:
    assert shown("1. item\n" * 100)[-1] == "100. item"


def test_what_is_written_beside_code_is_shortened_where_it_does_not_fit() -> None:
    assert shown("```python title=long/file/name.py\nx\n```", 20)[0] == "  ⧉ copy  python ti…"


def test_a_quote_that_goes_on_keeps_its_bar_between_paragraphs() -> None:
    rows = shown("> said\n>\n" * 60)

    assert rows == ["▌ said", "▌"] * 59 + ["▌ said"]


def test_a_table_that_goes_on_keeps_its_columns() -> None:
    first, second = parts_of("| n |\n|---|\n" + "\n".join(f"| {number} |" for number in range(70)))
    laid = lay_out(first, 40)

    assert second == Part(source=second.source, opener="| n |\n|---|\n", is_continued=True)
    assert len(lay_out(second, 40, laid.columns).rows) == second.source.count("|") // 2
