"""Parsed documents built by hand, and a meter that counts words, for tests that need no weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from appliance.documents.model import (
    Block,
    Code,
    Furniture,
    Heading,
    ListItem,
    Paragraph,
    ParsedDocument,
    Segment,
    Span,
    Table,
)

Part = tuple[str, str]


class WordMeter:
    """Counts a token for each word and mark; two special tokens, as BERT has."""

    def __init__(self, max_input_tokens: int = 34, *, adds_up: bool = False) -> None:
        self.max_input_tokens = max_input_tokens
        self.adds_up = adds_up

    def count_tokens(self, text: str) -> int:
        return len(self.token_spans([text])[0]) + 2

    def token_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        return [[match.span() for match in re.finditer(r"\w{1,5}|[^\w\s]", text)] for text in texts]


def parsed(*parts: Part, name: str = "note.txt") -> ParsedDocument:
    """Build a document of parts `(kind, text)`: h1 to h6, p, li, code, table, furniture and hidden."""
    text = ""
    blocks: list[Block] = []
    open_headings: list[tuple[int, int]] = []
    for kind, words in parts:
        start = len(text)
        text += words + "\n\n"
        end = start + len(words)
        if kind.startswith("h") and kind[1:].isdigit():
            level = int(kind[1:])
            open_headings = [entry for entry in open_headings if entry[0] < level]
            parent = open_headings[-1][1] if open_headings else -1
            open_headings.append((level, len(blocks)))
            blocks.append(Heading(start=start, end=end, level=level, parent=parent))
            continue
        parent = open_headings[-1][1] if open_headings else -1
        blocks.append(_block(kind, words, start, end, parent))
    return ParsedDocument(
        name=name,
        media_type="text/plain",
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        size_bytes=len(text.encode()),
        parser="by-hand-1",
        text=text,
        segments=(Segment(kind="section", number=1, label="text", start=0, end=len(text)),),
        blocks=tuple(blocks),
    )


def _block(kind: str, words: str, start: int, end: int, parent: int) -> Block:
    match kind:
        case "p":
            return Paragraph(start=start, end=end, parent=parent)
        case "hidden":
            return Paragraph(start=start, end=end, parent=parent, hidden="white_text")
        case "li":
            return ListItem(start=start, end=end, parent=parent)
        case "code":
            return Code(start=start, end=end, parent=parent)
        case "furniture":
            return Furniture(start=start, end=end, parent=parent)
        case "table":
            rows = []
            position = start
            for line in words.split("\n"):
                rows.append(Span(start=position, end=position + len(line)))
                position += len(line) + 1
            return Table(start=start, end=end, rows=tuple(rows), header_rows=1, parent=parent)
    raise ValueError(kind)
