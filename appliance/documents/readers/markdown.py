"""Markdown: the source as it stands, with the blocks CommonMark and GitHub's tables see in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

from appliance.documents.builder import DocumentBuilder
from appliance.documents.model import Span
from appliance.documents.readers.source import Source
from appliance.documents.readers.text import mark_paragraphs, read_characters, trimmed
from appliance.documents.versions import reader_label

_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n.*?\n(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.S)
_FRONT_TITLE = re.compile(r"^title:[^\S\n]*['\"]?(.+?)['\"]?[^\S\n]*$", re.M | re.I)
_WORD = re.compile(r"\w")


def read_markdown(source: Source, builder: DocumentBuilder) -> str:
    """Read Markdown; headings, lists, code and tables become blocks, comments become hidden ones."""
    text = read_characters(source, builder)
    builder.begin_segment("section", "")
    offset = builder.append_raw(text)
    front = _FRONT_MATTER.match(text)
    front_end = front.end() if front else 0
    if front and (title := _FRONT_TITLE.search(front.group(0))) and not source.depth:
        builder.metadata = type(builder.metadata)(title=title.group(1))
    layout = _Layout(builder=builder, text=text, offset=offset, first=front_end)
    for token in _block_tokens(text[front_end:]):
        layout.take(token)
    layout.fill_gap(len(text))
    return reader_label("markdown")


def _block_tokens(text: str) -> Iterator[Token]:
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    yield from markdown.parse(text)


@dataclass(kw_only=True)
class _Layout:
    """Turns block tokens, which know only line numbers, into spans; what no token covers is a paragraph."""

    builder: DocumentBuilder
    text: str
    offset: int
    first: int
    lists: int = 0
    item_start: int | None = None
    lines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Only "\n" ends a line for the parser; `splitlines` knows many more.
        lengths = (len(line) + 1 for line in self.text[self.first :].split("\n"))
        self.lines = [*accumulate(lengths, initial=self.first)]
        self.done = self.first if not _WORD.search(self.text[: self.first]) else 0

    def take(self, token: Token) -> None:
        if token.type in ("bullet_list_open", "ordered_list_open"):
            self.lists += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self.lists -= 1
        elif token.type == "list_item_open" and token.map:
            self.item_start = max(self.lines[token.map[0]], self.done)
        elif token.map and token.type in _MARKERS:
            start, end = self.lines[token.map[0]], min(self.lines[token.map[1]], len(self.text))
            self.mark(token, start, end)

    def mark(self, token: Token, start: int, end: int) -> None:
        start = max(start, self.done)
        if self.item_start is not None and token.type != "heading_open":
            start = max(self.item_start, self.done)
        first, last = trimmed(self.text, start, end, keeps_indent=token.type in ("fence", "code_block"))
        if first >= last:
            return
        self.fill_gap(first)
        self.done = last
        _MARKERS[token.type](self, token, first, last)
        self.item_start = None

    def fill_gap(self, end: int) -> None:
        if _WORD.search(self.text, self.done, end):
            mark_paragraphs(self.builder, self.text, self.done, end, self.offset)
        self.done = max(self.done, end)

    def heading(self, token: Token, start: int, end: int) -> None:
        piece = self.text[start:end]
        if token.markup in ("=", "-"):
            piece = piece[: piece.rstrip("=- \t").__len__()]
        else:
            piece = re.sub(r"\s+#+\s*$", "", piece)
        lead = re.match(r"[\s>]*#*\s*", piece) if token.markup.startswith("#") else None
        first = start + (lead.end() if lead else 0)
        first, last = trimmed(self.text, first, start + len(piece))
        if first < last:
            self.builder.mark_heading(self.offset + first, self.offset + last, int(token.tag[1]))

    def paragraph(self, _token: Token, start: int, end: int) -> None:
        if self.lists and self.item_start is not None:
            self.builder.mark_list_item(self.offset + start, self.offset + end, self.lists)
        else:
            self.builder.mark_paragraph(self.offset + start, self.offset + end)

    def code(self, token: Token, start: int, end: int) -> None:
        language = token.info.split()[0].strip("{}.")[:40] if token.info.strip() else ""
        self.builder.mark_code(self.offset + start, self.offset + end, language=language)

    def table(self, _token: Token, start: int, end: int) -> None:
        rows: list[Span] = []
        position = start
        for line in self.text[start:end].split("\n"):
            rows.append(Span(start=self.offset + position, end=self.offset + position + len(line)))
            position += len(line) + 1
        self.builder.mark_table(
            self.offset + start, self.offset + end, [rows[0], *rows[2:]], 1, uses_pipes=True
        )

    def html(self, _token: Token, start: int, end: int) -> None:
        piece = self.text[start:end]
        is_comment = piece.startswith("<!--") and piece.find("-->") in (-1, len(piece) - 3)
        self.builder.mark_paragraph(self.offset + start, self.offset + end, "comment" if is_comment else None)


_MARKERS = {
    "heading_open": _Layout.heading,
    "paragraph_open": _Layout.paragraph,
    "fence": _Layout.code,
    "code_block": _Layout.code,
    "table_open": _Layout.table,
    "html_block": _Layout.html,
}
