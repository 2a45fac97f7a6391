"""Collects the text and blocks of one document; the only place where spans come into being."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from appliance.documents.limits import Limits
from appliance.documents.model import (
    Attachment,
    Block,
    Code,
    Furniture,
    Heading,
    HiddenCause,
    ListItem,
    Metadata,
    Notice,
    NoticeKind,
    Paragraph,
    Segment,
    SegmentKind,
    Span,
    Table,
    TextOrigin,
)
from appliance.documents.reasons import RefusalError

_SURROGATES = re.compile("[\ud800-\udfff]")
_LINE_BREAKS = re.compile("\r\n?")
_BREAK = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_CELL_BREAKS = re.compile(r"[ \t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_OWN_OUTLINE: frozenset[SegmentKind] = frozenset(("sheet", "slide", "message", "attachment"))
MAX_NOTICES = 50


def clean(text: str) -> str:
    """Make text storable: line ends are `\\n`, NUL and lone surrogates become U+FFFD."""
    text = _LINE_BREAKS.sub("\n", text)
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\x00", "\ufffd")


class DocumentBuilder:
    """Text, segments and blocks of a document while a reader goes through it.

    `heading`, `paragraph` and the like append text; `append_raw` followed by the `mark_` methods keeps a
    source text as it stands and lays blocks over it.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.metadata = Metadata()
        self.encoding = ""
        self.page_count = 0
        self.has_unread_pictures = False
        self.pages_without_text: list[int] = []
        self.attachments: list[Attachment] = []
        self.notices: list[Notice] = []
        self.blocks: list[Block] = []
        self.segments: list[Segment] = []
        self.prefix = ""
        self._counts: Counter[SegmentKind] = Counter()
        self._parts: list[str] = []
        self._length = 0
        self._cells = 0
        self._headings: list[tuple[int, int]] = []
        self._previous_kind = ""

    @property
    def length(self) -> int:
        """Characters so far."""
        return self._length

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)

    def begin_segment(
        self,
        kind: SegmentKind,
        label: str,
        *,
        number: int = 0,
        origin: TextOrigin = "text",
        at: int | None = None,
    ) -> None:
        """Start a page, sheet, slide or section; the one before ends here, or at the character `at`."""
        if at is None and self.blocks and self._length and self._previous_kind:
            self._append("\n\n")
        if at is None:
            self._previous_kind = ""
        if kind == "section" and self.prefix:
            kind = "attachment"
        count = number or self._counts[kind] + 1
        self._counts[kind] = count
        start = (self._length if at is None else at) if self.segments else 0
        self.segments.append(
            Segment(kind=kind, number=count, label=self._label(label), start=start, end=start, origin=origin)
        )
        if kind in _OWN_OUTLINE:
            self._headings.clear()

    def relabel_segment(self, label: str) -> None:
        """Give the current segment its name, once that is known."""
        self.segments[-1] = replace(self.segments[-1], label=self._label(label))

    def set_origin(self, origin: TextOrigin) -> None:
        """Say where the text of the current segment comes from."""
        self.segments[-1] = replace(self.segments[-1], origin=origin)

    def heading(self, text: str, level: int, hidden: HiddenCause | None = None) -> None:
        """Append a heading; a heading without text is nothing."""
        span = self._append_block(" ".join(text.split()), "heading")
        if span:
            self.mark_heading(span.start, span.end, level, hidden)

    def paragraph(self, text: str, hidden: HiddenCause | None = None) -> None:
        """Append a paragraph."""
        span = self._append_block(text, "paragraph")
        if span:
            self.mark_paragraph(span.start, span.end, hidden)

    def list_item(self, text: str, depth: int = 1, hidden: HiddenCause | None = None) -> None:
        """Append a list item."""
        span = self._append_block(text, "list_item")
        if span:
            self.mark_list_item(span.start, span.end, depth, hidden)

    def code(self, text: str, language: str = "", hidden: HiddenCause | None = None) -> None:
        """Append source text; its indentation stays."""
        span = self._append_block(text.rstrip(), "code", keeps_indent=True)
        if span:
            self.mark_code(span.start, span.end, language=language, hidden=hidden)

    def furniture(self, text: str) -> None:
        """Append a running header, footer or page number."""
        span = self._append_block(text, "furniture")
        if span:
            self.blocks.append(Furniture(start=span.start, end=span.end, parent=self._parent()))

    def table(
        self,
        rows: Sequence[Sequence[str]],
        *,
        header_rows: int = 0,
        columns: Sequence[str] = (),
        first_row: int = 0,
        hidden: HiddenCause | None = None,
    ) -> None:
        """Append a table, one line a row, cells parted by tabs."""
        self._cells += sum(map(len, rows))
        if self._cells > self.limits.table_cells:
            raise RefusalError(
                "too_much_text", f"its tables hold more than {self.limits.table_cells:,} cells"
            )
        if self._length + sum(len(cell) for row in rows for cell in row) > self.limits.text_chars:
            raise self._too_much_text()
        lines = ["\t".join(_cell_text(cell) for cell in row) for row in rows]
        if not any(line.strip() for line in lines):
            return
        self._separate("table")
        start = self._length
        spans: list[Span] = []
        for line in lines:
            spans.append(Span(start=self._length, end=self._length + len(line)))
            self._append(line + "\n")
        end = spans[-1].end
        self.mark_table(start, end, spans, header_rows, columns=columns, first_row=first_row, hidden=hidden)

    def append_raw(self, text: str) -> int:
        """Append source text as it stands and return where it starts. It must be `clean`."""
        self._separate("raw")
        start = self._length
        self._append(text)
        return start

    def mark_heading(self, start: int, end: int, level: int, hidden: HiddenCause | None = None) -> None:
        """Lay a heading over appended text."""
        level = min(max(level, 1), 6)
        if hidden is not None:
            self.blocks.append(Heading(start=start, end=end, level=level, hidden=hidden))
            return
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self.blocks.append(Heading(start=start, end=end, level=level, parent=self._parent()))
        self._headings.append((level, len(self.blocks) - 1))

    def mark_paragraph(self, start: int, end: int, hidden: HiddenCause | None = None) -> None:
        """Lay a paragraph over appended text."""
        self.blocks.append(Paragraph(start=start, end=end, parent=self._parent(), hidden=hidden))

    def mark_list_item(self, start: int, end: int, depth: int, hidden: HiddenCause | None = None) -> None:
        """Lay a list item over appended text."""
        depth = min(max(depth, 1), 32)
        self.blocks.append(ListItem(start=start, end=end, depth=depth, parent=self._parent(), hidden=hidden))

    def mark_code(
        self,
        start: int,
        end: int,
        *,
        language: str = "",
        symbol: str = "",
        hidden: HiddenCause | None = None,
    ) -> None:
        """Lay a piece of source text over appended text."""
        self.blocks.append(
            Code(start=start, end=end, language=language, symbol=symbol, parent=self._parent(), hidden=hidden)
        )

    def mark_table(
        self,
        start: int,
        end: int,
        rows: Sequence[Span],
        header_rows: int,
        *,
        uses_pipes: bool = False,
        columns: Sequence[str] = (),
        first_row: int = 0,
        hidden: HiddenCause | None = None,
    ) -> None:
        """Lay a table over appended text."""
        self.blocks.append(
            Table(
                start=start,
                end=end,
                rows=tuple(rows),
                header_rows=min(header_rows, len(rows)),
                cell_separator="|" if uses_pipes else "\t",
                columns=tuple(columns),
                first_row=first_row,
                parent=self._parent(),
                hidden=hidden,
            )
        )

    def notice(self, kind: NoticeKind, message: str) -> None:
        """Note something a reader must know, once."""
        found = Notice(kind=kind, message=clean(message)[:500])
        if found not in self.notices and len(self.notices) < MAX_NOTICES:
            self.notices.append(found)

    def finished_segments(self) -> tuple[Segment, ...]:
        """The segments with their ends filled in; a document without any is one section."""
        if not self.segments:
            return (Segment(kind="section", number=1, label="", start=0, end=self._length),)
        ends = [segment.start for segment in self.segments[1:]] + [self._length]
        return tuple(replace(segment, end=end) for segment, end in zip(self.segments, ends, strict=True))

    def _append_block(self, text: str, kind: str, *, keeps_indent: bool = False) -> Span | None:
        text = clean(text)
        text = text.strip("\n") if keeps_indent else text.strip()
        if not text.strip():
            return None
        self._separate(kind)
        start = self._length
        self._append(text)
        return Span(start=start, end=self._length)

    def _separate(self, kind: str) -> None:
        if self._previous_kind:
            same_list = kind == self._previous_kind and kind in ("list_item", "furniture")
            self._append("\n" if same_list or self._previous_kind == "table" else "\n\n")
        self._previous_kind = kind

    def _append(self, text: str) -> None:
        self._length += len(text)
        if self._length > self.limits.text_chars:
            raise self._too_much_text()
        self._parts.append(text)

    def _too_much_text(self) -> RefusalError:
        return RefusalError(
            "too_much_text", f"it holds more than {self.limits.text_chars:,} characters of text"
        )

    def _label(self, label: str) -> str:
        names = [name for name in (self.prefix, label) if name]
        return " ".join(clean(" · ".join(names)).split())[:300]

    def _parent(self) -> int:
        return self._headings[-1][1] if self._headings else -1


def _cell_text(cell: str) -> str:
    cell = clean(cell)
    return (_CELL_BREAKS.sub(" ", cell) if _BREAK.search(cell) else cell).strip()
