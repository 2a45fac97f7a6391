"""A table as rows: columns as wide as they must be, and no cell cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from tui.widgets.rows import BLANK, Row, wrapped

_BETWEEN = " │ "
_NARROWEST = 4
_LINE_STYLE = ".table_line"
_HEAD_STYLE = ".table_head"

Cells = Sequence[Content]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a table holds. `aligns` has left, right or center for each column."""

    head: Cells
    body: Sequence[Cells]
    aligns: Sequence[str]


def widths_of(table: Table, width: int) -> tuple[int, ...]:
    """Return how wide each column is; nothing where there are too many columns to stand side by side."""
    count = len(table.head)
    room = width - len(_BETWEEN) * (count - 1)
    if room < _NARROWEST * count:
        return ()
    wanted = [
        max(1, *(row[place].cell_length for row in (table.head, *table.body))) for place in range(count)
    ]
    return tuple(min(one, _widest(wanted, room)) for one in wanted)


def _widest(wanted: Sequence[int], room: int) -> int:
    """Return the width at which columns are cut off so that all fit."""
    left, columns = room, len(wanted)
    for one in sorted(wanted):
        if one * columns > left:
            return left // columns
        left, columns = left - one, columns - 1
    return max(wanted)


def table_rows(table: Table, width: int, columns: Sequence[int], *, is_continued: bool) -> list[Row]:
    """Return the rows; a continued table has no head."""
    if not columns:
        return _records(table, width)
    rows: list[Row] = []
    if not is_continued:
        head = [cell.stylize_before(_HEAD_STYLE) for cell in table.head]
        rows += _line(head, columns, table.aligns)
        line = "─┼─".join("─" * column for column in columns)
        rows.append(Row(content=Content.styled(line, _LINE_STYLE), unsaid=len(line)))
    for cells in table.body:
        rows += _line(cells, columns, table.aligns)
    return rows


def _line(cells: Cells, columns: Sequence[int], aligns: Sequence[str]) -> list[Row]:
    pieces = [
        [row.content for row in wrapped(cell, column)] for cell, column in zip(cells, columns, strict=True)
    ]
    between = Content.styled(_BETWEEN, _LINE_STYLE)
    rows = []
    for place in range(max(map(len, pieces))):
        parts = [
            _aligned(piece[place] if place < len(piece) else Content(""), column, align)
            for piece, column, align in zip(pieces, columns, aligns, strict=True)
        ]
        rows.append(Row(content=between.join(parts)))
    return rows


def _aligned(content: Content, width: int, align: str) -> Content:
    missing = max(0, width - content.cell_length)
    left = {"right": missing, "center": missing // 2}.get(align, 0)
    return content.pad(left, missing - left)


def _records(table: Table, width: int) -> list[Row]:
    """Show each row as lines of its own, for a screen too narrow for columns."""
    rows: list[Row] = []
    for cells in table.body:
        rows += [BLANK] if rows else []
        for name, cell in zip(table.head, cells, strict=True):
            rows += wrapped(name.stylize_before(_HEAD_STYLE) + Content(": ") + cell, width)
    return rows
