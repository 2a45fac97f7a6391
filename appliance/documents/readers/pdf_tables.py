"""Finds tables among the lines of a page: rows cut by wide gaps whose cells stand under one another."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.documents.readers.pdf_lines import Line

_MIN_ROWS = 3
_MAX_PROSE_WORDS = 9
_EDGE_TOLERANCE = 6.0
_MIN_ALIGNED_SHARE = 0.6
_SIGNS = frozenset("$€£¥%()–-")


def find_tables(lines: Sequence[Line]) -> dict[int, int]:
    """Where tables start and end, as indices of lines."""
    found: dict[int, int] = {}
    index = 0
    while index < len(lines):
        end = _stretch(lines, index)
        if end > index and _is_table(lines[index:end]):
            found[index] = end
            index = end
        else:
            index = max(end, index + 1)
    return found


def table_rows(lines: Sequence[Line]) -> list[list[str]]:
    """Cells of each line under the columns they stand in; rows have one width."""
    merged = [_merge_signs(line) for line in lines]
    columns = _columns(merged)
    rows: list[list[str]] = []
    for cells in merged:
        row = [""] * len(columns)
        for text, left, right in cells:
            column = _column_of(columns, left, right)
            row[column] = f"{row[column]} {text}".strip()
        rows.append(row)
    return rows


def _stretch(lines: Sequence[Line], start: int) -> int:
    """How far rows go on from a line: a single cell in between is a label as long as rows follow it."""
    if len(lines[start].cells) < 2:
        return start
    end = start + 1
    position = start + 1
    while position < len(lines) and position - end < 2:
        line, before = lines[position], lines[position - 1]
        if line.top > before.top + before.size or before.bottom - line.top > 3 * max(line.size, before.size):
            break
        position += 1
        if len(line.cells) > 1:
            end = position
    return end


def _is_table(lines: Sequence[Line]) -> bool:
    rows = [line for line in lines if len(line.cells) > 1]
    if len(rows) < _MIN_ROWS:
        return False
    words = [len(cell.split()) for row in rows for cell in row.cells[1:]]
    if sum(words) / len(words) > _MAX_PROSE_WORDS:
        return False
    edges = [edge for row in rows for edge in (*row.lefts[1:], *row.rights[1:])]
    aligned = sum(
        any(_is_shared(edge, edges, len(rows)) for edge in (*row.lefts[1:], *row.rights[1:])) for row in rows
    )
    return aligned >= _MIN_ALIGNED_SHARE * len(rows)


def _is_shared(edge: float, edges: Sequence[float], rows: int) -> bool:
    near = sum(abs(edge - other) < _EDGE_TOLERANCE for other in edges)
    return near >= max(2, 0.4 * rows)


def _merge_signs(line: Line) -> list[tuple[str, float, float]]:
    """A currency or percent sign that stands apart belongs to its number."""
    cells: list[tuple[str, float, float]] = []
    pending: tuple[str, float] | None = None
    for text, left, right in zip(line.cells, line.lefts, line.rights, strict=True):
        if text in ("$", "€", "£", "¥"):
            pending = (text, left)
        elif set(text) <= _SIGNS and cells and text not in ("-", "–"):
            cells[-1] = (cells[-1][0] + text, cells[-1][1], right)
        else:
            sign, start = pending or ("", left)
            cells.append((sign + text, start, right))
            pending = None
    if pending is not None:
        cells.append((pending[0], pending[1], line.rights[-1]))
    return cells


def _columns(rows: Sequence[Sequence[tuple[str, float, float]]]) -> list[tuple[float, float]]:
    """Columns as ranges of x: cells that overlap share one; narrow cells first, so that titles don't bridge."""
    columns: list[tuple[float, float]] = []
    cells = sorted((cell for row in rows if len(row) > 1 for cell in row), key=lambda cell: cell[2] - cell[1])
    for _, left, right in cells:
        touching = [column for column in columns if left < column[1] and right > column[0]]
        if not touching:
            columns.append((left, right))
        elif len(touching) == 1:
            columns.remove(touching[0])
            columns.append((min(left, touching[0][0]), max(right, touching[0][1])))
    return sorted(columns)


def _column_of(columns: Sequence[tuple[float, float]], left: float, right: float) -> int:
    overlaps = [min(right, high) - max(left, low) for low, high in columns]
    first_touched = next((index for index, overlap in enumerate(overlaps) if overlap > 0), None)
    return first_touched if first_touched is not None else overlaps.index(max(overlaps))
