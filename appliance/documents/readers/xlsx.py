"""Workbooks: the cells that hold something, as tables with their places in the sheet."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.documents.archive import Archive
from appliance.documents.builder import DocumentBuilder
from appliance.documents.model import HiddenCause
from appliance.documents.readers.delimited import looks_like_header
from appliance.documents.readers.opc import Relation, main_part, note_properties, related, relations
from appliance.documents.readers.source import Source
from appliance.documents.readers.xlsx_cells import CellFormats, read_formats
from appliance.documents.readers.xlsx_sheet import Sheet, SheetRow, column_letters, parse_sheet
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label
from appliance.documents.xml import Element, attribute, children, descendants, find, parse_xml


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workbook:
    archive: Archive
    builder: DocumentBuilder
    strings: list[str]
    formats: CellFormats


def read_xlsx(source: Source, archive: Archive, builder: DocumentBuilder) -> str:
    """Read a workbook, every sheet of it."""
    part = main_part(archive, builder, "xl/workbook.xml")
    if part.endswith(".bin"):
        raise RefusalError("unsupported", "it is a binary workbook (XLSB)")
    root = parse_xml(archive.read(part), builder.limits)
    parts = relations(archive, part, builder)
    if not source.depth:
        note_properties(archive, builder)
    uses_1904 = attribute(find(root, "s:workbookPr"), "date1904") in ("1", "true")
    book = _Workbook(
        archive=archive,
        builder=builder,
        strings=_shared_strings(archive, parts, builder),
        formats=read_formats(_first(archive, parts, "styles", builder), uses_1904=uses_1904),
    )
    sheets = list(descendants(root, "s:sheet"))
    for number, sheet in enumerate(sheets, start=1):
        relation = parts.get(attribute(sheet, "r:id"))
        if relation is not None and relation.kind == "worksheet":
            _read_sheet(book, sheet, relation, number)
        source.host.report_progress(number, len(sheets))
    return reader_label("xlsx")


def _first(
    archive: Archive, parts: dict[str, Relation], kind: str, builder: DocumentBuilder
) -> Element | None:
    name = next(related(parts, kind), None)
    if name is None or name not in archive:
        return None
    return parse_xml(archive.read(name), builder.limits)


def _shared_strings(archive: Archive, parts: dict[str, Relation], builder: DocumentBuilder) -> list[str]:
    return [_rich_text(item) for item in children(_first(archive, parts, "sharedStrings", builder), "s:si")]


def _rich_text(item: Element) -> str:
    pieces = [element.text or "" for element in children(item, "s:t")]
    pieces += [element.text or "" for run in children(item, "s:r") for element in children(run, "s:t")]
    return "".join(pieces)


def _read_sheet(book: _Workbook, element: Element, relation: Relation, number: int) -> None:
    builder = book.builder
    builder.begin_segment("sheet", attribute(element, "name"), number=number)
    is_hidden = attribute(element, "state") in ("hidden", "veryHidden")
    try:
        data = book.archive.read(relation.target)
        sheet = parse_sheet(data, book.strings, book.formats, builder.limits)
    except RefusalError as exc:
        if exc.reason != "damaged":
            raise
        builder.notice("damaged_part", f"sheet {attribute(element, 'name')!r} cannot be read: {exc.message}")
        return
    if sheet.formulas_without_value:
        builder.notice(
            "formula_without_value",
            f"{sheet.formulas_without_value} formulas have no stored value; shown as written",
        )
    for region in _regions(sheet.rows):
        _append_region(region, sheet, "hidden_sheet" if is_hidden else None, builder)
    _append_comments(book, relation)


def _regions(rows: list[SheetRow]) -> list[list[SheetRow]]:
    """Rows that follow one another without an empty one between them."""
    found: list[list[SheetRow]] = []
    for row in rows:
        if found and row.number == found[-1][-1].number + 1:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _append_region(
    rows: list[SheetRow], sheet: Sheet, hidden: HiddenCause | None, builder: DocumentBuilder
) -> None:
    visible = [row for row in rows if not row.is_hidden]
    concealed = [row for row in rows if row.is_hidden]
    shown_columns = {column for row in rows for column in row.cells} - sheet.hidden_columns
    while len(visible) > 1 and len(visible[0].cells) == 1 < len(visible[1].cells):
        builder.paragraph(next(iter(visible.pop(0).cells.values())), hidden)
    for stretch in _regions(visible):
        _append_table(stretch, sorted(shown_columns), hidden, builder)
    for stretch in _regions(concealed):
        _append_table(stretch, sorted(shown_columns), hidden or "hidden_row", builder)
    hidden_columns = sorted(sheet.hidden_columns & {column for row in rows for column in row.cells})
    if hidden_columns:
        _append_table(rows, hidden_columns, hidden or "hidden_row", builder)


def _append_table(
    rows: list[SheetRow], columns: list[int], hidden: HiddenCause | None, builder: DocumentBuilder
) -> None:
    columns = [column for column in columns if any(column in row.cells for row in rows)]
    if not columns:
        return
    if len(rows) == 1 and len(columns) == 1:
        builder.paragraph(rows[0].cells[columns[0]], hidden)
        return
    if len(rows) * len(columns) > builder.limits.table_cells:
        raise RefusalError("too_much_text", f"a sheet spans more than {builder.limits.table_cells:,} cells")
    cells = [[row.cells.get(column, "") for column in columns] for row in rows]
    builder.table(
        cells,
        header_rows=int(len(columns) > 1 and looks_like_header(cells)),
        columns=[column_letters(column) for column in columns],
        first_row=rows[0].number,
        hidden=hidden,
    )


def _append_comments(book: _Workbook, relation: Relation) -> None:
    parts = relations(book.archive, relation.target, book.builder)
    for name in related(parts, "comments"):
        if name not in book.archive:
            continue
        listing = parse_xml(book.archive.read(name), book.builder.limits)
        for comment in descendants(listing, "s:comment"):
            text = "".join(element.text or "" for element in descendants(comment, "s:t"))
            book.builder.paragraph(f"{attribute(comment, 'ref')}: {text}", "comment")
