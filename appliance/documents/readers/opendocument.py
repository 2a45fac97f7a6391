"""OpenDocument text, sheets and slides: the blocks of content.xml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from appliance.documents.archive import Archive
from appliance.documents.builder import DocumentBuilder
from appliance.documents.readers.delimited import looks_like_header
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label
from appliance.documents.xml import Element, attribute, children, descendants, find, parse_xml

_MAX_REPEAT = 64
_NO_TEXT = frozenset(("forms", "sequence-decls", "calculation-settings", "named-expressions"))
_MANIFEST = "META-INF/manifest.xml"


def read_opendocument(source: Source, archive: Archive, builder: DocumentBuilder) -> str:
    """Read an OpenDocument file."""
    if _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
        raise RefusalError("encrypted", "it is protected by a password")
    content = parse_xml(archive.read("content.xml"), builder.limits, allows_doctype=True)
    if "meta.xml" in archive and not source.depth:
        meta = find(parse_xml(archive.read("meta.xml"), builder.limits, allows_doctype=True), "meta")
        title, author = find(meta, "dc:title"), find(meta, "dc:creator")
        builder.metadata = replace(
            builder.metadata,
            title=(title.text or "") if title is not None else "",
            author=(author.text or "") if author is not None else "",
        )
    for body in descendants(content, "body"):
        for office in body:
            if office.tag not in ("spreadsheet", "presentation"):
                builder.begin_segment("section", "")
            _read_blocks(office, builder, depth=0)
    return reader_label("opendocument")


def _read_blocks(parent: Element, builder: DocumentBuilder, depth: int) -> None:
    for element in parent:
        if element.tag in _NO_TEXT:
            continue
        if element.tag == "p":
            _read_paragraph(element, builder, depth)
        elif element.tag == "list":
            _read_blocks(element, builder, depth + 1)
        elif element.tag == "table":
            _read_table(element, builder, is_sheet=parent.tag == "spreadsheet")
        elif element.tag in _READERS:
            _READERS[element.tag](element, builder)
        else:
            _read_blocks(element, builder, depth)


def _read_paragraph(element: Element, builder: DocumentBuilder, depth: int) -> None:
    text = _text(element)
    if depth:
        builder.list_item(text, depth)
    else:
        builder.paragraph(text)
    for box in descendants(element, "text-box"):
        _read_blocks(box, builder, 0)


def _read_heading(element: Element, builder: DocumentBuilder) -> None:
    level = attribute(element, "outline-level", "1")
    builder.heading(_text(element), int(level) if level.isdigit() else 1)


def _read_page(element: Element, builder: DocumentBuilder) -> None:
    builder.begin_segment("slide", attribute(element, "name"))
    _read_blocks(element, builder, 0)


def _read_deletions(element: Element, builder: DocumentBuilder) -> None:
    builder.paragraph(" ".join(element.itertext()), "deleted")


def _read_notes(notes: Element, builder: DocumentBuilder) -> None:
    number = builder.segments[-1].number if builder.segments else 1
    if any(text.strip() for text in notes.itertext()):
        builder.begin_segment("notes", f"notes of slide {number}", number=number)
        for box in descendants(notes, "text-box"):
            _read_blocks(box, builder, 0)


def _read_table(table: Element, builder: DocumentBuilder, *, is_sheet: bool) -> None:
    if is_sheet:
        builder.begin_segment("sheet", attribute(table, "name"))
    rows: list[list[str]] = []
    for row in descendants(table, "table-row"):
        cells = [cell for element in row for cell in _cells(element)]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            rows.append(cells)
    width = max(map(len, rows), default=0)
    if width == 1:
        for row_cells in rows:
            builder.paragraph(row_cells[0])
    elif rows:
        rows = [row_cells + [""] * (width - len(row_cells)) for row_cells in rows]
        has_header = next(children(table, "table-header-rows"), None) is not None or looks_like_header(rows)
        builder.table(rows, header_rows=int(has_header))


def _cells(element: Element) -> Iterator[str]:
    if element.tag not in ("table-cell", "covered-table-cell"):
        return
    text = " ".join(_text(paragraph) for paragraph in descendants(element, "p"))
    repeat = attribute(element, "number-columns-repeated", "1")
    count = int(repeat) if repeat.isdigit() else 1
    for _ in range(min(count, _MAX_REPEAT)):
        yield text


def _text(element: Element) -> str:
    pieces = [element.text or ""]
    for child in element:
        if child.tag == "s":
            count = attribute(child, "c", "1")
            pieces.append(" " * min(int(count) if count.isdigit() else 1, 100))
        elif child.tag == "tab":
            pieces.append("\t")
        elif child.tag == "line-break":
            pieces.append("\n")
        elif child.tag not in ("frame", "annotation", "note-citation"):
            pieces.append(_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


_READERS = {
    "h": _read_heading,
    "page": _read_page,
    "tracked-changes": _read_deletions,
    "notes": _read_notes,
}
