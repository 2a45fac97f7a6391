"""Plain text and source code: the text as it stands, with paragraphs or definitions laid over it."""

from __future__ import annotations

import re

from appliance.documents.builder import DocumentBuilder, clean
from appliance.documents.encoding import decode
from appliance.documents.readers.source import Source
from appliance.documents.versions import reader_label

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+|\f")
_DEFINITIONS = {
    "python": r"(?:async\s+def|def|class)\s+(\w+)",
    "javascript": r"(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:function\*?|class)\s+(\w+)"
    r"|(?:export\s+)?(?:const|let|var)\s+(\w+)\s*=",
    "go": r"func\s+(?:\([^)]*\)\s*)?(\w+)|type\s+(\w+)",
    "rust": r"(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|unsafe\s+|const\s+)*(?:fn|struct|enum|trait|mod)\s+(\w+)"
    r"|impl\b(?:<[^>]*>)?\s*([\w:]+)",
    "ruby": r"(?:def|class|module)\s+([\w.:?!]+)",
    "php": r"(?:abstract\s+|final\s+)?(?:function|class|interface|trait)\s+(\w+)",
    "shell": r"(?:function\s+)?([\w-]+)\s*\(\)\s*\{",
    "sql": r"(?i:create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index|trigger)"
    r"\s+(?:if\s+not\s+exists\s+)?([\w.\"]+))",
}
_CURLY = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|data|export|inline|virtual|"
    r"extern|unsigned|const|async|override|fun|func)\s+)*"
    r"(?:(?:class|interface|enum|struct|record|object|namespace|trait|union)\s+(\w+)"
    r"|(?:[\w:<>\[\],*&?]+\s+)+[*&]*(\w[\w:]*)\s*\([^;{}()]*\)[^;{}()]*\{?\s*$)"
)
for _language in ("java", "kotlin", "c", "cpp", "csharp", "swift", "scala", "dart"):
    _DEFINITIONS[_language] = _CURLY
_DEFINITIONS["typescript"] = (
    _DEFINITIONS["javascript"] + r"|(?:export\s+)?(?:interface|type|enum|namespace)\s+(\w+)"
)
_MAX_LINE_CHARS = 500


def read_text(source: Source, builder: DocumentBuilder) -> str:
    """Read plain text; paragraphs end at blank lines."""
    text = read_characters(source, builder)
    builder.begin_segment("section", "")
    offset = builder.append_raw(text)
    mark_paragraphs(builder, text, 0, len(text), offset)
    return reader_label("text")


def read_code(source: Source, builder: DocumentBuilder, language: str) -> str:
    """Read source code; every top-level definition is a block."""
    text = read_characters(source, builder)
    builder.begin_segment("section", "")
    offset = builder.append_raw(text)
    pieces = _definitions(text, language)
    for index, (start, symbol) in enumerate(pieces):
        end = pieces[index + 1][0] if index + 1 < len(pieces) else len(text)
        first, last = trimmed(text, start, end, keeps_indent=True)
        if first < last:
            builder.mark_code(offset + first, offset + last, language=language, symbol=symbol)
    return reader_label("code")


def read_characters(source: Source, builder: DocumentBuilder) -> str:
    """Decode the whole file and note what was odd about it."""
    decoded = decode(bytes(source.data), source.encoding_label)
    if not source.depth:
        builder.encoding = decoded.encoding
    if decoded.undecodable:
        builder.notice(
            "undecodable_bytes", f"{decoded.undecodable} bytes make no sense as {decoded.encoding}"
        )
    return clean(decoded.text)


def mark_paragraphs(builder: DocumentBuilder, text: str, start: int, end: int, offset: int) -> None:
    """Lay paragraphs over `text[start:end]`, which stands at `offset` + its own index in the document."""
    position = start
    for gap in _BLANK_LINES.finditer(text, start, end):
        _mark_one(builder, text, position, gap.start(), offset)
        position = gap.end()
    _mark_one(builder, text, position, end, offset)


def trimmed(text: str, start: int, end: int, *, keeps_indent: bool = False) -> tuple[int, int]:
    """Move both ends of a span inwards over white space; with `keeps_indent` the first line keeps its own."""
    piece = text[start:end]
    last = end - (len(piece) - len(piece.rstrip()))
    first = start + len(piece) - len(piece.lstrip())
    if keeps_indent and first < last:
        first = max(start, text.rfind("\n", start, first) + 1)
    return first, last


def _mark_one(builder: DocumentBuilder, text: str, start: int, end: int, offset: int) -> None:
    first, last = trimmed(text, start, end)
    if first < last:
        builder.mark_paragraph(offset + first, offset + last)


def _definitions(text: str, language: str) -> list[tuple[int, str]]:
    """Where each top-level definition starts, comments and decorators above it included, and its name."""
    pieces = [(0, "")]
    pattern = _DEFINITIONS.get(language)
    if pattern is None:
        return pieces
    definition = re.compile(pattern)
    lead: int | None = None
    position = 0
    for line in text.splitlines(keepends=True):
        match = definition.match(line) if len(line) < _MAX_LINE_CHARS else None
        if match is not None:
            name = next((group for group in match.groups() if group), "")
            pieces.append((position if lead is None else lead, name))
            lead = None
        elif line.startswith(("#", "//", "/*", " *", "*", "@", "--")):
            lead = position if lead is None else lead
        else:
            lead = None
        position += len(line)
    return pieces
