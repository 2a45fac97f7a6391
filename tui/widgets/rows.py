"""Lines of text as they stand on the screen, and what of each is text and what is decoration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from rich.cells import cell_len, split_graphemes
from textual.content import Content

_WORD = re.compile(r"\S+")

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
        before: int | None = None
        for start, end in _stretches(line.plain, max(1, width)):
            joins = None if before is None else line.plain[before:start]
            rows.append(Row(content=line[start:end], joins=joins))
            before = end
    return rows or [BLANK]


def _stretches(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where each row of a line begins and ends; what lies between two is white."""
    start = end = cells = 0
    for word in _WORD.finditer(line):
        needed = cell_len(line[end : word.end()])
        if cells + needed <= width:
            cells, end = cells + needed, word.end()
            continue
        if end > start:
            yield start, end
        start = word.start()
        *full, (last, cells) = _pieces(word[0], width)
        for piece, _ in full:
            yield start, start + piece
            start += piece
        end = start + last
    rest = cell_len(line[end:])
    yield start, len(line) if cells + rest <= width else end


def folded(content: Content, width: int) -> list[Content]:
    """Break a line anywhere but inside what is drawn as one character; joined, the pieces are the line."""
    lengths = [length for length, _ in _pieces(content.plain, width)]
    return content.divide(list(accumulate(lengths[:-1])))


def _pieces(text: str, width: int) -> list[tuple[int, int]]:
    """Return for each piece of a text that is as long as a row allows how many characters and cells it has."""
    pieces: list[tuple[int, int]] = []
    length = cells = 0
    spans, _ = split_graphemes(text)
    for start, end, size in spans:
        if cells and cells + size > width:
            pieces.append((length, cells))
            length = cells = 0
        length, cells = length + end - start, cells + size
    return [*pieces, (length, cells)]


def prefixed(rows: Sequence[Row], first: Content, other: Content, *, is_said: bool = False) -> list[Row]:
    """Put something before the first row and before the others; the first one's may be text."""
    return [
        _prefixed(row, other if place else first, is_said=is_said and not place and not row.unsaid)
        for place, row in enumerate(rows)
    ]


def _prefixed(row: Row, prefix: Content, *, is_said: bool) -> Row:
    unsaid = 0 if is_said else row.unsaid + len(prefix.plain)
    return replace(row, content=prefix + row.content, unsaid=unsaid)
