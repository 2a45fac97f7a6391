"""The values a document becomes: one text, segments that partition it, and blocks with exact spans.

Three rules hold for every `ParsedDocument`; `check_document` proves the first two before one is returned:

- segments are in order and cover the whole text: every offset has one page, sheet, slide or section;
- blocks are in order and never overlap, and no letter or digit stands outside them;
- a block is hidden as a whole or visible as a whole; hidden text is kept and marked, never mixed in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Literal

SegmentKind = Literal["page", "sheet", "slide", "notes", "section", "message", "attachment"]
TextOrigin = Literal["text", "ocr", "ocr_layer"]

HiddenCause = Literal[
    "hidden_style",
    "white_text",
    "tiny_text",
    "invisible_text",
    "off_page",
    "deleted",
    "comment",
    "hidden_sheet",
    "hidden_row",
    "hidden_slide",
]

NoticeKind = Literal[
    "pages_without_text",
    "hidden_text",
    "ocr_text",
    "undecodable_bytes",
    "encoding_mismatch",
    "copying_restricted",
    "damaged_part",
    "attachment_not_read",
    "external_reference",
    "formula_without_value",
    "macros_ignored",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Characters `start` up to, not including, `end` of the document's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A page, sheet, slide or section. `number` counts from 1 within its kind; `label` is its name.

    `origin` is `ocr` when we recognised the text in a picture, `ocr_layer` when the file already held it.
    """

    kind: SegmentKind
    number: int
    label: str
    start: int
    end: int
    origin: TextOrigin = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading of level 1 to 6. `parent` is the index of the heading above it in `blocks`, or -1."""

    start: int
    end: int
    level: int
    parent: int = -1
    hidden: HiddenCause | None = None
    kind: Literal["heading"] = "heading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Running text. `parent` is the index of the nearest heading above it in `blocks`, or -1."""

    start: int
    end: int
    parent: int = -1
    hidden: HiddenCause | None = None
    kind: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListItem:
    """One item of a list; `depth` is 1 for the outermost list."""

    start: int
    end: int
    depth: int = 1
    parent: int = -1
    hidden: HiddenCause | None = None
    kind: Literal["list_item"] = "list_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Source text; `symbol` is the function or class it defines, when that is known."""

    start: int
    end: int
    language: str = ""
    symbol: str = ""
    parent: int = -1
    hidden: HiddenCause | None = None
    kind: Literal["code"] = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells. Each row is a span of the text, its cells are parted by `cell_separator`.

    The first `header_rows` rows name the columns. In a spreadsheet `columns` holds the column letters and
    `first_row` the sheet's number of row 0, so cell (r, c) stands at `columns[c]` + `first_row + r`.
    """

    start: int
    end: int
    rows: tuple[Span, ...]
    header_rows: int = 0
    cell_separator: Literal["\t", "|"] = "\t"
    columns: tuple[str, ...] = ()
    first_row: int = 0
    parent: int = -1
    hidden: HiddenCause | None = None
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Furniture:
    """A running header, a running footer or a page number: repeated on most pages, of no use to a search."""

    start: int
    end: int
    parent: int = -1
    hidden: HiddenCause | None = None
    kind: Literal["furniture"] = "furniture"


Block = Heading | Paragraph | ListItem | Code | Table | Furniture


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What the file says about itself; empty when it says nothing."""

    title: str = ""
    author: str = ""
    subject: str = ""
    language: str = ""
    created: datetime | None = None
    modified: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file inside the file. `name` is a base name; `reason` says why its text is not in the document."""

    name: str
    media_type: str
    size_bytes: int
    is_read: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a reader of the text must know."""

    kind: NoticeKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A document as text with structure. `parser` names the reader and its version, for cache keys."""

    name: str
    media_type: str
    sha256: str
    size_bytes: int
    parser: str
    text: str
    segments: tuple[Segment, ...]
    blocks: tuple[Block, ...]
    encoding: str = ""
    metadata: Metadata = field(default_factory=Metadata)
    page_count: int = 0
    pages_without_text: tuple[int, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    notices: tuple[Notice, ...] = ()

    def text_of(self, span: Span | Segment | Block) -> str:
        """The characters of a span, segment or block."""
        return self.text[span.start : span.end]

    def segment_at(self, offset: int) -> Segment:
        """The segment that holds a character; an offset at the end belongs to the last segment."""
        return self.segments[self._segment_index(offset)]

    def segments_between(self, start: int, end: int) -> tuple[Segment, ...]:
        """Every segment that the characters `start` to `end` touch."""
        first = self._segment_index(start)
        last = self._segment_index(max(start, end - 1))
        return self.segments[first : last + 1]

    def heading_path(self, block: Block) -> tuple[str, ...]:
        """Titles of the headings above a block, outermost first; a heading is not part of its own path."""
        titles: list[str] = []
        parent = block.parent
        while parent >= 0:
            heading = self.blocks[parent]
            titles.append(self.text_of(heading))
            parent = heading.parent
        return tuple(reversed(titles))

    def visible_blocks(self) -> Iterator[Block]:
        """The blocks a search may use: neither hidden nor running headers and footers."""
        return (block for block in self.blocks if block.hidden is None and block.kind != "furniture")

    def hidden_blocks(self) -> Iterator[Block]:
        """The blocks a person who opens the file does not see."""
        return (block for block in self.blocks if block.hidden is not None)

    def cells(self, table: Table, row: Span) -> tuple[Span, ...]:
        """The cells of one row as spans without the white space around them."""
        found: list[Span] = []
        position = row.start
        for piece in self.text_of(row).split(table.cell_separator):
            lead = len(piece) - len(piece.lstrip())
            found.append(Span(start=position + lead, end=position + lead + len(piece.strip())))
            position += len(piece) + 1
        if table.cell_separator == "|":
            found = _without_outer_pipes(found, self.text_of(row))
        return tuple(found)

    def _segment_index(self, offset: int) -> int:
        if not 0 <= offset <= len(self.text):
            raise IndexError(f"offset {offset} is outside a text of {len(self.text)} characters")
        return max(0, bisect_right(self.segments, offset, key=lambda segment: segment.start) - 1)


def check_document(document: ParsedDocument) -> None:
    """Prove the three rules of this module.

    Raises:
        ValueError: a rule is broken; says which and where.
    """
    _check_segments(document)
    _check_blocks(document)
    for index, block in enumerate(document.blocks):
        _check_parent(document, index, block)
        if block.kind == "table":
            _check_rows(block)


def _without_outer_pipes(cells: list[Span], row_text: str) -> list[Span]:
    stripped = row_text.strip()
    first = 1 if stripped.startswith("|") else 0
    last = len(cells) - 1 if stripped.endswith("|") and len(stripped) > 1 else len(cells)
    return cells[first:last]


def _check_segments(document: ParsedDocument) -> None:
    segments = document.segments
    if not segments or segments[0].start != 0 or segments[-1].end != len(document.text):
        raise ValueError("the segments do not cover the text")
    if any(segment.start > segment.end for segment in segments):
        raise ValueError("a segment ends before it starts")
    for before, after in pairwise(segments):
        if before.end != after.start:
            raise ValueError(f"the segments leave a gap or overlap at character {before.end}")


def _check_blocks(document: ParsedDocument) -> None:
    position = 0
    for block in document.blocks:
        if not position <= block.start < block.end <= len(document.text):
            raise ValueError(f"the {block.kind} at {block.start} is empty, out of order or out of the text")
        if _has_word(document.text[position : block.start]):
            raise ValueError(f"text before the {block.kind} at {block.start} belongs to no block")
        position = block.end
    if _has_word(document.text[position:]):
        raise ValueError(f"the text after character {position} belongs to no block")


def _has_word(text: str) -> bool:
    return bool(text.strip()) and any(character.isalnum() for character in text)


def _check_parent(document: ParsedDocument, index: int, block: Block) -> None:
    if block.parent < 0:
        return
    if block.parent >= index:
        raise ValueError(f"block {index} names a heading that comes after it")
    heading = document.blocks[block.parent]
    if heading.kind != "heading":
        raise ValueError(f"block {index} names block {block.parent} as its heading, which is none")
    if block.kind == "heading" and heading.level >= block.level:
        raise ValueError(f"heading {index} stands below a heading of the same or a deeper level")


def _check_rows(table: Table) -> None:
    position = table.start
    for row in table.rows:
        if not position <= row.start <= row.end <= table.end:
            raise ValueError(f"a row of the table at {table.start} is out of order or out of the table")
        position = row.end
    if not table.rows or not 0 <= table.header_rows <= len(table.rows):
        raise ValueError(f"the table at {table.start} has no rows or more header rows than rows")
