"""Lines of text as they stand on the screen, and what of each is text and what is decoration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import split_graphemes
from textual.content import Content

RowKind = Literal["text", "code_head", "code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line. `joins` is what stood between it and the row before in the same line of text; None begins a line.

    The first `unsaid` characters are no text. `style` reaches to the right edge.
    """

    content: Content
    joins: str | None = None
    unsaid: int = 0
    style: str = ""
    kind: RowKind = "text"

    @property
    def text(self) -> str:
        """What the row says."""
        return self.content.plain[self.unsaid :]


BLANK = Row(content=Content(""))


def wrapped(content: Content, width: int) -> list[Row]:
    """Break text between words; one that is longer than a line is broken inside."""
    rows: list[Row] = []
    for line in content.split("\n", allow_blank=True):
        plain, position = line.plain, 0
        for piece in line.wrap(max(1, width)):
            found = plain.find(piece.plain, position)
            joins = plain[position:found] if rows and position else None
            rows.append(Row(content=piece, joins=joins))
            position = found + len(piece.plain)
    return rows or [BLANK]


def folded(content: Content, width: int) -> list[Content]:
    """Break a line anywhere but inside what is drawn as one character; joined, the pieces are the line."""
    offsets: list[int] = []
    cells = 0
    spans, _ = split_graphemes(content.plain)
    for start, _, size in spans:
        if cells and cells + size > width:
            offsets.append(start)
            cells = 0
        cells += size
    return content.divide(offsets)


def prefixed(rows: Sequence[Row], first: Content, other: Content, *, is_said: bool = False) -> list[Row]:
    """Put something before the first row and before the others; the first one's may be text."""
    return [
        _prefixed(row, other if place else first, is_said=is_said and not place and not row.unsaid)
        for place, row in enumerate(rows)
    ]


def _prefixed(row: Row, prefix: Content, *, is_said: bool) -> Row:
    unsaid = 0 if is_said else row.unsaid + len(prefix.plain)
    return replace(row, content=prefix + row.content, unsaid=unsaid)
