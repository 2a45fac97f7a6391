"""The cells of one sheet, streamed: memory grows with the cells that hold something, not with the grid."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from appliance.documents.limits import Limits
from appliance.documents.readers.xlsx_cells import CellFormats
from appliance.documents.reasons import RefusalError

_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_COLUMNS = 16_384
_TRUE = ("1", "true")


@dataclass(slots=True, kw_only=True)
class SheetRow:
    """One row that holds something: its number and the text of its cells by column, from 1."""

    number: int
    is_hidden: bool
    cells: dict[int, str]


@dataclass(slots=True, kw_only=True)
class Sheet:
    """The rows of a sheet in order."""

    rows: list[SheetRow] = field(default_factory=list)
    hidden_columns: set[int] = field(default_factory=set)
    formulas_without_value: int = 0


def parse_sheet(data: bytes, strings: list[str], formats: CellFormats, limits: Limits) -> Sheet:
    """Read the XML of a sheet.

    Raises:
        RefusalError: it is damaged, declares entities, or holds too many cells.
    """
    reader = _Reader(strings, formats, limits)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as exc:
        raise RefusalError("damaged", f"its XML is damaged: {exc}") from exc
    return reader.finish()


def column_letters(column: int) -> str:
    """The name of a column: 1 is A, 27 is AA."""
    letters = ""
    while column:
        column, remainder = divmod(column - 1, 26)
        letters = chr(65 + remainder) + letters
    return letters


def column_number(letters: str) -> int:
    """The inverse of `column_letters`."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


class _Reader:
    def __init__(self, strings: list[str], formats: CellFormats, limits: Limits) -> None:
        self._strings = strings
        self._formats = formats
        self._limits = limits
        self._sheet = Sheet()
        self._row: SheetRow | None = None
        self._last_row = 0
        self._column = 0
        self._cells = 0
        self._chars = 0
        self._cell: dict[str, str] = {}
        self._value: list[str] = []
        self._formula: list[str] = []
        self._text: list[str] | None = None
        self._is_phonetic = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        if tag == "c":
            self._start_cell(attributes)
        elif tag == "row":
            self._start_row(attributes)
        elif tag == "v" or (tag == "t" and self._row is not None and not self._is_phonetic):
            self._text = self._value
        elif tag == "f" and self._row is not None:
            self._text = self._formula
        elif tag == "rPh":
            self._is_phonetic = True
        elif tag == "col":
            self._note_column(attributes)

    def end(self, name: str) -> None:
        tag = name.rpartition(" ")[2]
        if tag in ("v", "t", "f"):
            self._text = None
        elif tag == "c":
            self._end_cell()
        elif tag == "row":
            self._end_row()
        elif tag == "rPh":
            self._is_phonetic = False

    def data(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def finish(self) -> Sheet:
        self._end_row()
        self._sheet.rows.sort(key=lambda row: row.number)
        return self._sheet

    def _start_row(self, attributes: dict[str, str]) -> None:
        number = attributes.get("r", "")
        self._last_row = int(number) if number.isdigit() and len(number) < 9 else self._last_row + 1
        self._column = 0
        is_hidden = attributes.get("hidden") in _TRUE
        self._row = SheetRow(number=self._last_row, is_hidden=is_hidden, cells={})

    def _end_row(self) -> None:
        if self._row is not None and self._row.cells:
            self._sheet.rows.append(self._row)
        self._row = None

    def _start_cell(self, attributes: dict[str, str]) -> None:
        self._cell = attributes
        self._value, self._formula = [], []
        match = _REFERENCE.fullmatch(attributes.get("r", ""))
        self._column = column_number(match.group(1)) if match else self._column + 1
        if self._row is None:
            self._start_row({"r": match.group(2)} if match else {})

    def _end_cell(self) -> None:
        text = self._cell_text()
        if self._row is None or not text.strip() or self._column > _COLUMNS:
            return
        self._row.cells[self._column] = text
        self._cells += 1
        self._chars += len(text)
        # One shared string can stand in thousands of cells: a small file, a text without end.
        if self._chars > self._limits.text_chars:
            raise RefusalError(
                "too_much_text", f"a sheet holds more than {self._limits.text_chars:,} characters"
            )
        if self._cells > self._limits.table_cells:
            raise RefusalError("too_much_text", f"a sheet holds more than {self._limits.table_cells:,} cells")

    def _cell_text(self) -> str:
        value = "".join(self._value)
        if not value:
            if not self._formula:
                return ""
            self._sheet.formulas_without_value += 1
            return "=" + "".join(self._formula)
        kind = self._cell.get("t", "n")
        if kind == "s":
            index = int(value) if value.strip().isdigit() else -1
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value.strip() in _TRUE else "FALSE"
        if kind == "n":
            return self._formats.show(value.strip(), self._cell.get("s", "0"))
        return value

    def _note_column(self, attributes: dict[str, str]) -> None:
        if attributes.get("hidden") not in _TRUE:
            return
        first, last = attributes.get("min", ""), attributes.get("max", "")
        if first.isdigit() and last.isdigit():
            self._sheet.hidden_columns.update(range(int(first), min(int(last), _COLUMNS) + 1))


def _refuse_doctype(*_: object) -> None:
    raise RefusalError("forbidden_content", "its XML declares a document type")
