"""HTML and XHTML as blocks, in one pass and without a tree, so that no nesting is too deep."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

from appliance.documents.builder import DocumentBuilder, clean
from appliance.documents.encoding import decode
from appliance.documents.model import HiddenCause
from appliance.documents.readers.source import Source
from appliance.documents.readers.styles import Styles
from appliance.documents.versions import reader_label

_META_CHARSET = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.I)
_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.I)
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "wbr")
)
_SKIPPED = frozenset(("script", "style", "template", "nav", "iframe", "object", "noscript", "svg", "canvas"))
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "title",
        "tr",
        "ul",
        "caption",
    ]
)
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
# What an opening tag closes, and the element that search for it stops at.
_CLOSES = {
    "li": (("li",), _LISTS),
    "dt": (("dt", "dd"), ("dl",)),
    "dd": (("dt", "dd"), ("dl",)),
    "tr": (("tr",), ("table",)),
    "td": (("td", "th"), ("tr", "table")),
    "th": (("td", "th"), ("tr", "table")),
    "tbody": (("thead", "tbody"), ("table",)),
    "option": (("option",), ("select",)),
}
_LAYOUT_CELL_CHARS = 600
_MAX_COLSPAN = 50


def read_html(source: Source, builder: DocumentBuilder) -> str:
    """Read a page; scripts and navigation are left out, hidden text is marked."""
    data = bytes(source.data)
    match = _META_CHARSET.search(data[:4096]) or _XML_ENCODING.match(data[:400])
    label = source.encoding_label or (match.group(1).decode("ascii") if match else "")
    decoded = decode(data, label)
    if not source.depth:
        builder.encoding = decoded.encoding
    if (
        match
        and label
        and decoded.encoding.replace("-", "") not in (label.lower().replace("-", ""), "cp1252")
    ):
        builder.notice("encoding_mismatch", f"it says {label} but is written in {decoded.encoding}")
    if decoded.undecodable:
        builder.notice(
            "undecodable_bytes", f"{decoded.undecodable} bytes make no sense as {decoded.encoding}"
        )
    builder.begin_segment("section", "")
    page = append_html(clean(decoded.text), builder, is_xhtml=data.lstrip().startswith(b"<?xml"))
    if not source.depth:
        builder.metadata = replace(
            builder.metadata, title=page.title, author=page.author, language=page.language
        )
    return reader_label("html")


def append_html(text: str, builder: DocumentBuilder, *, is_xhtml: bool = False) -> PageFacts:
    """Append the blocks of a page to a document and return what the page says of itself."""
    reader = _Reader(builder, is_xhtml=is_xhtml)
    reader.feed(text)
    reader.close()
    reader.finish()
    return reader.facts


@dataclass(kw_only=True)
class PageFacts:
    """What a page says of itself."""

    title: str = ""
    author: str = ""
    language: str = ""
    first_heading: str = ""


@dataclass(slots=True)
class _Open:
    tag: str
    hidden: HiddenCause | None
    is_skipped: bool


@dataclass(kw_only=True)
class _TableRows:
    rows: list[list[str]] = field(default_factory=list)
    header_rows: int = 0
    is_header_row: bool = True
    hidden: HiddenCause | None = None
    has_blocks: bool = False


class _Reader(HTMLParser):
    def __init__(self, builder: DocumentBuilder, *, is_xhtml: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.facts = PageFacts()
        self._builder = builder
        self._is_xhtml = is_xhtml
        self._styles = Styles()
        self._stack: list[_Open] = []
        self._open_tags: Counter[str] = Counter()
        self._visible: list[str] = []
        self._hidden: list[tuple[HiddenCause, str]] = []
        self._sheet: list[str] = []
        self._table: _TableRows | None = None
        self._code_language = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self._note_facts(tag, attributes)
        self._close_implied(tag)
        if tag in _BLOCKS:
            self._flush()
        if tag == "br":
            self._text("\n")
        if tag in ("td", "th"):
            self._start_cell(tag, attributes)
        if tag in _VOID:
            return
        above = self._stack[-1] if self._stack else _Open("", None, False)
        hidden = above.hidden or self._styles.cause(tag, attributes)
        self._stack.append(_Open(tag, hidden, above.is_skipped or tag in _SKIPPED))
        self._open_tags[tag] += 1
        if tag == "table" and self._table is None and not self._stack[-1].is_skipped:
            self._table = _TableRows(hidden=hidden)
        elif tag in ("table", "h1", "h2", "h3", "h4", "pre") and self._table is not None:
            self._table.has_blocks = True
        elif tag == "tr" and self._table is not None and self._open_tags["table"] == 1:
            self._table.rows.append([])
            self._table.is_header_row = True

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self._is_xhtml and tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open_tags[tag]:
            return
        while True:
            closed = self._stack[-1].tag
            self._close_top()
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.tag == "style":
            self._sheet.append(data)
        if top is not None and top.tag == "title" and not self._open_tags["svg"]:
            self.facts.title = self.facts.title or " ".join(data.split())[:500]
            return
        if top is None or not top.is_skipped:
            self._text(data)

    def updatepos(self, i: int, j: int) -> int:  # noqa: ARG002 - the inherited signature
        """Count no lines: nobody asks for them, and counting takes as long as reading."""
        return j

    def parse_marked_section(self, i: int, report: bool | int = 1) -> int:  # noqa: ARG002 - inherited
        """Skip `<![...` of any sort; the inherited method raises on kinds it doesn't know."""
        end = self.rawdata.find(">", i)
        return end + 1 if end >= 0 else -1

    def finish(self) -> None:
        """Close what the page left open."""
        while self._stack:
            self._close_top()
        self._flush()

    def _text(self, data: str) -> None:
        hidden = self._stack[-1].hidden if self._stack else None
        if hidden is None:
            self._visible.append(data if self._open_tags["pre"] or data == "\n" else _collapse(data))
        elif data.strip():
            self._hidden.append((hidden, _collapse(data)))

    def _close_top(self) -> None:
        top = self._stack[-1]
        if top.tag == "style":
            self._styles.add_sheet("".join(self._sheet))
            self._sheet.clear()
        if top.tag in ("td", "th") and self._open_tags["table"] == 1:
            self._end_cell()
        elif top.tag == "tr" and self._open_tags["table"] == 1:
            self._end_row()
        elif top.tag in _BLOCKS:
            self._flush()
        self._stack.pop()
        self._open_tags[top.tag] -= 1
        if top.tag == "table" and not self._open_tags["table"]:
            self._end_table()

    def _close_implied(self, tag: str) -> None:
        if tag in _BLOCKS and self._stack and self._stack[-1].tag == "p":
            self._close_top()
        closes, stops = _CLOSES.get(tag, ((), ()))
        if not any(self._open_tags[name] for name in closes):
            return
        for index in range(len(self._stack) - 1, -1, -1):
            if self._stack[index].tag in stops:
                return
            if self._stack[index].tag in closes:
                while len(self._stack) > index:
                    self._close_top()
                return

    def _flush(self) -> None:
        """End the block at hand: its visible text, then what was hidden in it."""
        if self._table is not None:
            self._visible.append("\n")
            return
        if not self._visible and not self._hidden:
            return
        text = "".join(self._visible)
        self._visible.clear()
        if text.strip():
            self._append(text)
        self._flush_hidden()

    def _append(self, text: str) -> None:
        if self._open_tags["pre"]:
            self._builder.code(text, self._code_language)
            self._code_language = ""
            return
        text = _tidy(text)
        level = next((level for level in range(1, 7) if self._open_tags[f"h{level}"]), 0)
        depth = sum(self._open_tags[name] for name in _LISTS)
        if level:
            self.facts.first_heading = self.facts.first_heading or " ".join(text.split())
            self._builder.heading(text, level)
        elif depth and self._open_tags["li"]:
            self._builder.list_item(text, depth)
        else:
            self._builder.paragraph(text)

    def _flush_hidden(self) -> None:
        pieces, self._hidden = self._hidden, []
        while pieces:
            cause = pieces[0][0]
            same = [text for other, text in pieces if other == cause]
            pieces = [piece for piece in pieces if piece[0] != cause]
            self._builder.paragraph(_tidy(" ".join(same)), cause)

    def _start_cell(self, tag: str, attributes: dict[str, str]) -> None:
        if self._table is None or self._open_tags["table"] != 1:
            self._visible.append(" ")
            return
        self._visible.clear()
        if not self._table.rows:
            self._table.rows.append([])
        if tag == "td" and not self._open_tags["thead"]:
            self._table.is_header_row = False
        span = attributes.get("colspan", "1").strip()
        extra = min(int(span) - 1, _MAX_COLSPAN) if span.isascii() and span.isdigit() and int(span) > 1 else 0
        self._pending_span = extra

    def _end_cell(self) -> None:
        if self._table is None or not self._table.rows:
            return
        self._table.rows[-1].append(_tidy("".join(self._visible)))
        self._table.rows[-1].extend("" for _ in range(self._pending_span))
        self._visible.clear()
        self._pending_span = 0

    def _end_row(self) -> None:
        table = self._table
        if table is not None and table.is_header_row and table.header_rows == len(table.rows) - 1:
            table.header_rows = len(table.rows)

    def _end_table(self) -> None:
        table, self._table = self._table, None
        if table is None:
            return
        left_over = _tidy("".join(self._visible))
        self._visible.clear()
        rows = [row for row in table.rows if any(row)]
        width = max((len(row) for row in rows), default=0)
        longest = max((len(cell) for row in rows for cell in row), default=0)
        if width < 2 or table.has_blocks or longest > _LAYOUT_CELL_CHARS:
            self._append_layout(rows)
        else:
            self._builder.table(rows, header_rows=min(table.header_rows, len(rows)))
        self._builder.paragraph(left_over)
        self._flush_hidden()

    def _append_layout(self, rows: list[list[str]]) -> None:
        for row in rows:
            for cell in row:
                for paragraph in cell.split("\n\n"):
                    self._builder.paragraph(paragraph)

    def _note_facts(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "html":
            self.facts.language = attributes.get("lang", attributes.get("xml:lang", ""))[:35]
        elif tag == "meta" and attributes.get("name", "").lower() == "author":
            self.facts.author = attributes.get("content", "")[:300]
        elif tag == "code" and self._open_tags["pre"]:
            names = attributes.get("class", "").split()
            found = [name for name in names if name.startswith(("language-", "lang-"))]
            self._code_language = found[0].split("-", 1)[1][:40] if found else ""

    _pending_span = 0


def _collapse(text: str) -> str:
    return re.sub(r"[ \t\n\r\f]+", " ", text)


def _tidy(text: str) -> str:
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", text.replace("\xa0", " "))
    text = re.sub(r" {2,}", " ", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
