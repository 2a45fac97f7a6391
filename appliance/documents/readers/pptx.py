"""Presentations: slides in their order with titles, bullets, tables and speaker notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.documents.archive import Archive
from appliance.documents.builder import DocumentBuilder
from appliance.documents.model import HiddenCause
from appliance.documents.readers.opc import main_part, note_properties, related, relations
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label
from appliance.documents.xml import Element, attribute, children, descendants, find, parse_xml

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr")
_SHAPES = ("p:sp", "p:graphicFrame")
_DEFAULT_SIZE = (12_192_000, 6_858_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deck:
    archive: Archive
    builder: DocumentBuilder
    size: tuple[int, int]


def read_pptx(source: Source, archive: Archive, builder: DocumentBuilder) -> str:
    """Read a presentation."""
    part = main_part(archive, builder, "ppt/presentation.xml")
    presentation = parse_xml(archive.read(part), builder.limits)
    parts = relations(archive, part, builder)
    if not source.depth:
        note_properties(archive, builder)
    ids = [attribute(item, "r:id") for item in descendants(presentation, "p:sldId")]
    names = [parts[name].target for name in ids if name in parts]
    deck = _Deck(archive=archive, builder=builder, size=_size(find(presentation, "p:sldSz")))
    for number, name in enumerate(names, start=1):
        try:
            _read_slide(deck, name, number)
        except RefusalError as exc:
            if exc.reason != "damaged" or len(names) == 1:
                raise
            builder.notice("damaged_part", f"slide {number} cannot be read: {exc.message}")
        source.host.report_progress(number, len(names))
    builder.page_count += len(names)
    return reader_label("pptx")


def _size(element: Element | None) -> tuple[int, int]:
    width, height = attribute(element, "cx"), attribute(element, "cy")
    return (int(width), int(height)) if width.isdigit() and height.isdigit() else _DEFAULT_SIZE


def _read_slide(deck: _Deck, name: str, number: int) -> None:
    builder = deck.builder
    slide = parse_xml(deck.archive.read(name), builder.limits)
    slide_hidden: HiddenCause | None = (
        "hidden_slide" if attribute(slide, "show", "1") in ("0", "false") else None
    )
    builder.begin_segment("slide", str(number), number=number)
    before = builder.length
    tree = find(slide, "p:cSld", "p:spTree")
    shapes = list(_shapes(tree)) if tree is not None else []
    shapes.sort(key=lambda shape: _placeholder(shape) not in _TITLES)
    for shape in shapes:
        _read_shape(deck, shape, slide_hidden)
    parts = relations(deck.archive, name, builder)
    for diagram in related(parts, "diagramData"):
        _read_paragraphs(deck, parse_xml(deck.archive.read(diagram), builder.limits), slide_hidden)
    if builder.length == before:
        builder.pages_without_text.append(number)
    for notes in related(parts, "notesSlide"):
        _read_notes(deck, notes, number, slide_hidden)


def _shapes(tree: Element) -> Iterator[Element]:
    for child in tree:
        if child.tag in _SHAPES:
            yield child
        elif child.tag in ("p:grpSp", "mc:AlternateContent", "mc:Choice"):
            yield from _shapes(child)


def _placeholder(shape: Element) -> str:
    found = next(descendants(shape, "p:ph"), None)
    return attribute(found, "type", "body") if found is not None else ""


def _read_shape(deck: _Deck, shape: Element, slide_hidden: HiddenCause | None) -> None:
    hidden = slide_hidden or _shape_hidden(shape, deck.size)
    table = next(descendants(shape, "a:tbl"), None)
    if table is not None:
        _read_table(deck, table, hidden)
        return
    body = find(shape, "p:txBody")
    kind = _placeholder(shape)
    if body is None:
        return
    if kind in _TITLES:
        deck.builder.heading(" ".join(_lines(body)), 1, hidden)
    elif kind in _FURNITURE and hidden is None:
        deck.builder.furniture("\n".join(_lines(body)))
    else:
        _read_paragraphs(deck, body, hidden, is_list=kind in ("body", "obj"))


def _shape_hidden(shape: Element, size: tuple[int, int]) -> HiddenCause | None:
    if attribute(next(descendants(shape, "p:cNvPr"), None), "hidden") in ("1", "true"):
        return "hidden_style"
    offset, extent = next(descendants(shape, "a:off"), None), next(descendants(shape, "a:ext"), None)
    try:
        left, top = int(attribute(offset, "x", "0")), int(attribute(offset, "y", "0"))
        width, height = int(attribute(extent, "cx", "1")), int(attribute(extent, "cy", "1"))
    except ValueError:
        return None
    is_inside = left < size[0] and top < size[1] and left + width > 0 and top + height > 0
    return None if is_inside or offset is None else "off_page"


def _read_paragraphs(
    deck: _Deck, body: Element, hidden: HiddenCause | None, *, is_list: bool = False
) -> None:
    for paragraph in descendants(body, "a:p"):
        properties = find(paragraph, "a:pPr")
        level = attribute(properties, "lvl", "0")
        depth = int(level) + 1 if level.isdigit() else 1
        has_bullet = any(find(properties, tag) is not None for tag in ("a:buChar", "a:buAutoNum", "a:buBlip"))
        if has_bullet or (is_list and find(properties, "a:buNone") is None):
            deck.builder.list_item(_text(paragraph), depth, hidden)
        else:
            deck.builder.paragraph(_text(paragraph), hidden)


def _read_table(deck: _Deck, table: Element, hidden: HiddenCause | None) -> None:
    rows = [[" ".join(_lines(cell)) for cell in children(row, "a:tc")] for row in children(table, "a:tr")]
    has_header = attribute(find(table, "a:tblPr"), "firstRow") in ("1", "true")
    deck.builder.table(rows, header_rows=1 if has_header and len(rows) > 1 else 0, hidden=hidden)


def _read_notes(deck: _Deck, name: str, number: int, hidden: HiddenCause | None) -> None:
    notes = parse_xml(deck.archive.read(name), deck.builder.limits)
    bodies = [
        body
        for shape in descendants(notes, "p:sp")
        if _placeholder(shape) == "body" and (body := find(shape, "p:txBody")) is not None
    ]
    if not any(line.strip() for body in bodies for line in _lines(body)):
        return
    deck.builder.begin_segment("notes", f"notes of slide {number}", number=number)
    for body in bodies:
        _read_paragraphs(deck, body, hidden)


def _lines(body: Element) -> list[str]:
    return [_text(paragraph) for paragraph in descendants(body, "a:p")]


def _text(paragraph: Element) -> str:
    pieces: list[str] = []
    for element in paragraph.iter():
        if element.tag in ("a:t", "m:t"):
            pieces.append(element.text or "")
        elif element.tag == "a:br":
            pieces.append("\n")
        elif element.tag == "a:tab":
            pieces.append("\t")
    return "".join(pieces).replace("\v", "\n")
