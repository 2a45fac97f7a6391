"""Word documents: paragraphs, headings by style, lists, tables, notes, and text that Word does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from appliance.documents.archive import Archive
from appliance.documents.builder import DocumentBuilder
from appliance.documents.model import HiddenCause
from appliance.documents.readers.delimited import looks_like_header
from appliance.documents.readers.opc import Relation, main_part, note_properties, related, relations
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label
from appliance.documents.xml import Element, attribute, children, descendants, find, parse_xml

_HEADING_NAME = re.compile(r"heading (\d)")
_OFF = ("0", "false", "off", "none")
_TINY_HALF_POINTS = 4
_DROPPED = frozenset(("w:instrText", "w:rPr", "w:pPr", "w:delInstrText", "mc:Fallback", "w:fldChar", "w:rt"))
_DELETED = frozenset(("w:del", "w:moveFrom"))
_CHARACTERS = {"w:tab": "\t", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "-", "w:ptab": "\t"}
_CONTAINERS = frozenset(
    (
        "w:sdt",
        "w:sdtContent",
        "w:ins",
        "w:moveTo",
        "w:customXml",
        "w:smartTag",
        "mc:AlternateContent",
        "mc:Choice",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    level: int
    is_list: bool
    hidden: HiddenCause | None


@dataclass(slots=True, kw_only=True)
class _Text:
    """The text of one paragraph: what shows, what does not, where pages break, and boxes anchored in it."""

    visible: list[str] = field(default_factory=list)
    hidden: dict[HiddenCause, list[str]] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    boxes: list[Element] = field(default_factory=list)

    def add(self, text: str, hidden: HiddenCause | None) -> None:
        if hidden is None:
            self.visible.append(text)
        else:
            self.hidden.setdefault(hidden, []).append(text)


def read_docx(source: Source, archive: Archive, builder: DocumentBuilder) -> str:
    """Read a Word document with its footnotes, headers and comments."""
    part = main_part(archive, builder, "word/document.xml")
    parts = relations(archive, part, builder)
    body = find(parse_xml(archive.read(part), builder.limits), "w:body")
    if body is None:
        raise RefusalError("damaged", "it has no body")
    if not source.depth:
        note_properties(archive, builder)
    reader = _Reader(builder, _read_styles(archive, parts, builder), body)
    reader.read_body(body)
    for kind, label in (("footnotes", "Footnotes"), ("endnotes", "Endnotes")):
        reader.read_notes(_parts(archive, parts, kind, builder), label)
    reader.read_furniture(
        [*_parts(archive, parts, "header", builder), *_parts(archive, parts, "footer", builder)]
    )
    reader.read_comments(_parts(archive, parts, "comments", builder))
    return reader_label("docx")


def _parts(
    archive: Archive, parts: dict[str, Relation], kind: str, builder: DocumentBuilder
) -> Iterator[Element]:
    for name in related(parts, kind):
        try:
            yield parse_xml(archive.read(name), builder.limits)
        except RefusalError as exc:
            builder.notice("damaged_part", f"its {kind} cannot be read: {exc.message}")


def _read_styles(archive: Archive, parts: dict[str, Relation], builder: DocumentBuilder) -> dict[str, _Style]:
    elements = {
        attribute(style, "w:styleId"): style
        for sheet in _parts(archive, parts, "styles", builder)
        for style in children(sheet, "w:style")
    }
    return {name: _resolve_style(style, elements) for name, style in elements.items()}


def _resolve_style(style: Element, elements: dict[str, Element]) -> _Style:
    chain: list[Element] = []
    current: Element | None = style
    while current is not None and current not in chain and len(chain) < 20:
        chain.append(current)
        current = elements.get(attribute(find(current, "w:basedOn"), "w:val"))
    level = next((level for link in chain if (level := _style_level(link))), 0)
    is_list = any(find(link, "w:pPr", "w:numPr") is not None for link in chain)
    hidden = next((cause for link in chain if (cause := _run_hidden(find(link, "w:rPr"), True))), None)
    return _Style(level=level, is_list=is_list, hidden=hidden)


def _style_level(style: Element) -> int:
    name = attribute(find(style, "w:name"), "w:val").lower()
    match = _HEADING_NAME.match(name)
    if match:
        return int(match.group(1))
    if name == "title":
        return 1
    return _outline_level(find(style, "w:pPr"))


def _outline_level(properties: Element | None) -> int:
    value = attribute(find(properties, "w:outlineLvl"), "w:val")
    return int(value) + 1 if value.isdigit() and int(value) < 9 else 0


def _is_on(element: Element | None) -> bool:
    return element is not None and attribute(element, "w:val") not in _OFF


def _run_hidden(properties: Element | None, is_shaded: bool) -> HiddenCause | None:
    if properties is None:
        return None
    if _is_on(find(properties, "w:vanish")):
        return "hidden_style"
    size = attribute(find(properties, "w:sz"), "w:val")
    if size.isdigit() and int(size) <= _TINY_HALF_POINTS:
        return "tiny_text"
    color = attribute(find(properties, "w:color"), "w:val").upper()
    is_on_colour = is_shaded or _is_shaded(properties) or _is_on(find(properties, "w:highlight"))
    return "white_text" if color == "FFFFFF" and not is_on_colour else None


def _is_shaded(properties: Element | None) -> bool:
    fill = attribute(find(properties, "w:shd"), "w:fill", "auto").upper()
    return fill not in ("AUTO", "FFFFFF")


class _Reader:
    def __init__(self, builder: DocumentBuilder, styles: dict[str, _Style], body: Element) -> None:
        self._builder = builder
        self._styles = styles
        self._has_rendered_breaks = next(descendants(body, "w:lastRenderedPageBreak"), None) is not None
        self._pages = 1

    def read_body(self, body: Element) -> None:
        has_breaks = self._has_rendered_breaks or any(
            attribute(item, "w:type") == "page" for item in descendants(body, "w:br")
        )
        self._builder.begin_segment("page" if has_breaks else "section", "1" if has_breaks else "")
        self._read_blocks(body)
        if has_breaks:
            self._builder.page_count += self._pages

    def read_notes(self, notes: Iterator[Element], label: str) -> None:
        is_begun = False
        for part in notes:
            for note in part:
                if attribute(note, "w:type") in ("separator", "continuationSeparator", "continuationNotice"):
                    continue
                if not is_begun:
                    self._builder.begin_segment("section", label)
                    is_begun = True
                self._read_blocks(note)

    def read_furniture(self, parts: list[Element]) -> None:
        lines = [self._plain(paragraph) for part in parts for paragraph in descendants(part, "w:p")]
        distinct = [line for line in dict.fromkeys(lines) if line.strip()]
        if distinct:
            self._builder.begin_segment("section", "Headers and footers")
        for line in distinct:
            self._builder.furniture(line)

    def read_comments(self, parts: Iterator[Element]) -> None:
        comments = [comment for part in parts for comment in children(part, "w:comment")]
        if comments:
            self._builder.begin_segment("section", "Comments")
        for comment in comments:
            text = "\n".join(self._plain(paragraph) for paragraph in descendants(comment, "w:p"))
            self._builder.paragraph(f"{attribute(comment, 'w:author')}: {text}", "comment")

    def _read_blocks(self, parent: Element, is_shaded: bool = False) -> None:
        for element in parent:
            if element.tag == "w:p":
                self._read_paragraph(element, is_shaded)
            elif element.tag == "w:tbl":
                self._read_table(element)
            elif element.tag in _CONTAINERS:
                self._read_blocks(element, is_shaded)
            elif element.tag in _DELETED:
                self._append_hidden(self._gather(element, _Text(), "deleted", is_shaded))

    def _read_paragraph(self, paragraph: Element, is_shaded: bool) -> None:
        properties = find(paragraph, "w:pPr")
        style = self._styles.get(attribute(find(properties, "w:pStyle"), "w:val"))
        is_shaded = is_shaded or _is_shaded(properties)
        text = self._gather(paragraph, _Text(), style.hidden if style else None, is_shaded)
        if (
            _is_on(find(properties, "w:pageBreakBefore"))
            and not self._has_rendered_breaks
            and self._pages > 1
        ):
            text.breaks.insert(0, 0)
        joined = "".join(text.visible)
        lead = len(joined) - len(joined.lstrip())
        for _ in [at for at in text.breaks if at <= lead]:
            self._begin_page()
        count = len(self._builder.blocks)
        self._append(joined, properties, style)
        for at in [at for at in text.breaks if at > lead]:
            self._begin_page(
                self._builder.blocks[-1].start + at - lead if len(self._builder.blocks) > count else None
            )
        self._append_hidden(text)
        for box in text.boxes:
            self._read_blocks(box, True)

    def _append(self, text: str, properties: Element | None, style: _Style | None) -> None:
        level = _outline_level(properties) or (style.level if style else 0)
        numbering = find(properties, "w:numPr")
        if level:
            self._builder.heading(text, level)
        elif numbering is not None or (style is not None and style.is_list):
            depth = attribute(find(numbering, "w:ilvl"), "w:val", "0")
            self._builder.list_item(text, int(depth) + 1 if depth.isdigit() else 1)
        else:
            self._builder.paragraph(text)

    def _append_hidden(self, text: _Text) -> None:
        for cause, pieces in text.hidden.items():
            self._builder.paragraph("".join(pieces), cause)

    def _begin_page(self, offset: int | None = None) -> None:
        self._pages += 1
        self._builder.begin_segment("page", str(self._pages), at=offset)

    def _gather(self, element: Element, text: _Text, hidden: HiddenCause | None, is_shaded: bool) -> _Text:
        """Collect the text below an element in order."""
        for child in element:
            tag = child.tag
            if tag == "w:t":
                text.add(child.text or "", hidden)
            elif tag in ("w:delText", "m:t"):
                text.add(child.text or "", "deleted" if tag == "w:delText" else hidden)
            elif tag in _DROPPED:
                continue
            elif tag == "w:txbxContent":
                text.boxes.append(child)
            elif tag == "w:lastRenderedPageBreak" or (tag == "w:br" and attribute(child, "w:type") == "page"):
                self._note_break(tag, text)
            elif tag in _CHARACTERS:
                text.add(_CHARACTERS[tag], hidden)
            else:
                self._gather(child, text, self._inner_hidden(child, hidden, is_shaded), is_shaded)
        return text

    def _note_break(self, tag: str, text: _Text) -> None:
        if self._has_rendered_breaks == (tag == "w:lastRenderedPageBreak"):
            text.breaks.append(sum(map(len, text.visible)))

    def _inner_hidden(
        self, element: Element, hidden: HiddenCause | None, is_shaded: bool
    ) -> HiddenCause | None:
        if element.tag in _DELETED:
            return "deleted"
        if hidden is not None or element.tag != "w:r":
            return hidden
        properties = find(element, "w:rPr")
        style = self._styles.get(attribute(find(properties, "w:rStyle"), "w:val"))
        return _run_hidden(properties, is_shaded) or (style.hidden if style else None)

    def _read_table(self, table: Element) -> None:
        hidden = _Text()
        rows: list[list[str]] = []
        header_rows = 0
        for row in _through_containers(table, "w:tr"):
            is_header = _is_on(find(row, "w:trPr", "w:tblHeader"))
            header_rows += is_header and header_rows == len(rows)
            rows.append(self._read_row(row, hidden))
        if max(map(len, rows), default=0) < 2:
            for cell_text in (cell for row_cells in rows for cell in row_cells):
                self._builder.paragraph(cell_text)
        else:
            header_rows = header_rows or int(looks_like_header(rows))
            self._builder.table(rows, header_rows=header_rows)
        self._append_hidden(hidden)

    def _read_row(self, row: Element, hidden: _Text) -> list[str]:
        cells: list[str] = []
        for cell in _through_containers(row, "w:tc"):
            properties = find(cell, "w:tcPr")
            pieces: list[str] = []
            for paragraph in descendants(cell, "w:p"):
                text = self._gather(paragraph, _Text(), None, _is_shaded(properties))
                pieces.append("".join(text.visible))
                for cause, found in text.hidden.items():
                    hidden.hidden.setdefault(cause, []).extend(found)
            cells.append("\n".join(piece for piece in pieces if piece.strip()))
            span = attribute(find(properties, "w:gridSpan"), "w:val")
            cells.extend("" for _ in range(min(int(span), 64) - 1 if span.isdigit() else 0))
        return cells

    def _plain(self, paragraph: Element) -> str:
        return "".join(self._gather(paragraph, _Text(), None, True).visible).strip()


def _through_containers(parent: Element, tag: str) -> Iterator[Element]:
    for child in parent:
        if child.tag == tag:
            yield child
        elif child.tag in _CONTAINERS:
            yield from _through_containers(child, tag)
