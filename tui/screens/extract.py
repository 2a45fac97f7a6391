"""Takes a row of fields out of each document, shows the words each value stands on, and writes CSV or JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input

from appliance.core.errors import ApplianceError
from appliance.jobs.evidence import FieldEvidence
from appliance.jobs.extract import PartBegun, RowDone
from appliance.jobs.rows import ExtractedRow, to_csv, to_jsonl
from tui.clean import shown_line
from tui.files import write_new
from tui.rows import DocumentRow, SourceRow
from tui.screens.answer import QuotePage
from tui.screens.dialogs import AskText, PickMany
from tui.screens.working import WorkingScreen
from tui.widgets.plain import Plain
from tui.widgets.work_lines import WorkLines

_MARKS = {
    "exact": ("✓", "green"),
    "near": ("≈", "green"),
    "absent": ("✗", "bold red"),
    "uncheckable": ("?", "yellow"),
    "empty": ("", ""),
}
_VERDICTS = {
    "exact": "stands there word for word",
    "near": "stands there, written another way",
    "absent": "NOT IN THE DOCUMENT",
    "uncheckable": "cannot be held against the words",
    "empty": "not stated",
}
_CELL_CHARACTERS = 28
_HOW = (
    "1. d chooses documents   2. s names the fields, as in: tenant, rent float, start date   3. r runs\n"
    "Each value is held against the text: ✓ word for word, ≈ written another way, ✗ not in the document."
)


class ExtractScreen(WorkingScreen):
    """Documents, a schema, and the rows that fill in."""

    CSS_PATH = "rows.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("d", "documents", "Documents"),
        Binding("s", "schema", "Fields"),
        Binding("i", "instruction", "Hint"),
        Binding("r", "run", "Run"),
        Binding("c", "save_csv", "CSV"),
        Binding("j", "save_jsonl", "JSONL"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._documents: list[DocumentRow] = []
        self._chosen: list[str] = []
        self._columns: tuple[str, ...] = ()
        self._rows: list[ExtractedRow] = []

    def compose(self) -> ComposeResult:
        yield Plain("Extract · opening the library…", classes="page-title")
        yield Input(
            placeholder='fields: "name, age int, tags [str]", a schema FILE, inline JSON, module:Class',
            classes="field",
            id="schema",
        )
        yield Input(
            placeholder="a word of yours on what is meant (optional)", classes="field", id="instruction"
        )
        yield DataTable(cursor_type="cell", classes="rows")
        yield WorkLines()
        with VerticalScroll(classes="detail", can_focus=False):
            yield Plain(_HOW, id="detail")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List the documents one can choose."""
        self._table.focus()
        self.fetch(
            self.session.library.documents(),
            self._take_documents,
            group="documents",
            on_error=self._show_unopened,
        )

    async def refill(self) -> None:
        """Say how far the work is."""
        self._show_title()

    async def action_back(self) -> None:
        """Leave a field, then stop the work, then the screen."""
        if isinstance(self.focused, Input):
            self._table.focus()
            return
        await super().action_back()

    async def action_documents(self) -> None:
        """Choose documents."""
        readable = [row for row in self._documents if row.chunk_count]
        if not readable:
            self.notify_plain("there is no document with text · F3 adds some", is_bad=True)
            return

        def take(places: Sequence[int] | None) -> None:
            if places is not None:
                self._chosen = [readable[place].document_id for place in places]
                self._show_title()

        chosen = {place for place, row in enumerate(readable) if row.document_id in self._chosen}
        lines = [f"{row.name}  ({row.collection})" for row in readable]
        await self.app.push_screen(PickMany("From which documents?", lines, chosen), take)

    def action_schema(self) -> None:
        """Go to the fields."""
        self._schema_field.focus()

    def action_instruction(self) -> None:
        """Go to the user's own word."""
        self.query_one("#instruction", Input).focus()

    def action_run(self) -> None:
        """Check the fields, then read the documents."""
        schema = self._schema
        if not schema:
            self.notify_plain("name the fields first: s", is_bad=True)
        elif not self._chosen:
            self.notify_plain("choose documents first: d", is_bad=True)
        elif self.is_working:
            self.notify_plain("one thing at a time · Esc stops what is running", is_bad=True)
        else:
            self.fetch(self.session.extraction.columns(schema), self._begin, group="columns")

    async def action_save_csv(self) -> None:
        """Write the rows as a table."""
        await self._save("extracted.csv", to_csv(self._rows, self._columns))

    async def action_save_jsonl(self) -> None:
        """Write the rows as JSON lines, receipts and evidence included."""
        await self._save("extracted.jsonl", to_jsonl(self._rows))

    async def take_event(self, event: object) -> None:
        """Show a part that begins or a row that is done."""
        match event:
            case PartBegun():
                part = f", part {event.part} of {event.parts}" if event.parts > 1 else ""
                self.query_one(WorkLines).begin(
                    f"document {event.document} of {event.documents}{part}: {event.name}"
                )
            case RowDone(row=row):
                self._rows.append(row)
                cells = [_cell(row, name) for name in self._columns]
                self._table.add_row(_document_cell(row), *cells)
                self._show_title()
            case _:
                await super().take_event(event)

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    @property
    def _schema_field(self) -> Input:
        return self.query_one("#schema", Input)

    @property
    def _schema(self) -> str:
        return self._schema_field.value.strip()

    def _take_documents(self, documents: list[DocumentRow]) -> None:
        self._documents = documents
        self._show_title()

    def _begin(self, columns: tuple[str, ...]) -> None:
        self._columns, self._rows = columns, []
        self._table.clear(columns=True)
        self._table.add_columns(Text("document"), *(Text(shown_line(name, 40)) for name in columns))
        instruction = self.query_one("#instruction", Input).value
        self.start("reading…", self.session.extraction.run(self._schema, instruction, self._chosen))
        self._table.focus()

    def _show_unopened(self, error: ApplianceError) -> None:
        self.query_one(".page-title", Plain).show("Extract · the library cannot be opened")
        self.query_one("#detail", Plain).show(f"{error.message}\n{error.hint}")

    def _show_title(self) -> None:
        done = f" · {len(self._rows)} rows" if self._rows else ""
        bad = sum(bool(row.absent) or not row.is_valid for row in self._rows)
        self.query_one(".page-title", Plain).show(
            f"Extract · {len(self._chosen)} of {len(self._documents)} documents{done}"
            + (f" · {bad} with something missing or unproven" if bad else "")
        )

    @on(Input.Submitted)
    def _leave_field(self) -> None:
        self._table.focus()

    @on(DataTable.CellHighlighted)
    def _describe(self, event: DataTable.CellHighlighted) -> None:
        if event.coordinate.row < len(self._rows):
            row = self._rows[event.coordinate.row]
            name = self._column_at(event.coordinate.column)
            self.query_one("#detail", Plain).show(_field_detail(row, name) if name else _row_detail(row))

    @on(DataTable.CellSelected)
    async def _open(self, event: DataTable.CellSelected) -> None:
        if event.coordinate.row >= len(self._rows):
            return
        row = self._rows[event.coordinate.row]
        name = self._column_at(event.coordinate.column)
        found = next((one for one in row.evidence_for(name) if one.is_found), None) if name else None
        if found is None:
            self.notify_plain("there are no words in the document to go to")
            return
        try:
            text = await self.session.library.text_of(row.document_id)
        except ApplianceError as exc:
            self.tell(exc)
            return
        await self.app.push_screen(QuotePage(_source(row, found), text))

    def _column_at(self, place: int) -> str:
        return self._columns[place - 1] if 0 < place <= len(self._columns) else ""

    async def _save(self, suggested: str, text: str) -> None:
        if not self._rows:
            self.notify_plain("there are no rows yet", is_bad=True)
            return

        async def save(file: str | None) -> None:
            if not file or not file.strip():
                return
            try:
                path = await asyncio.to_thread(write_new, file.strip(), text)
            except ApplianceError as exc:
                self.tell(exc)
                return
            self.notify_plain(f"{len(self._rows)} rows written to {path}")

        await self.app.push_screen(AskText("Write to which new file?", suggested), save)


def _document_cell(row: ExtractedRow) -> Text:
    mark, style = ("✗ ", "bold red") if row.failure else ("", "")
    if row.failure is None and row.problems:
        mark, style = "! ", "yellow"
    return Text.assemble((mark, style), shown_line(row.name, _CELL_CHARACTERS))


def _cell(row: ExtractedRow, name: str) -> Text:
    found = row.evidence_for(name)
    if not found:
        return Text("")
    worst = next((one for one in found if one.verdict == "absent"), found[0])
    mark, style = _MARKS[worst.verdict]
    return Text.assemble((f"{mark} " if mark else "–", style), _value_text(row, name))


def _value_text(row: ExtractedRow, name: str) -> str:
    value = row.values.get(name)
    if isinstance(value, list):
        return shown_line(", ".join(map(str, value)), _CELL_CHARACTERS)
    return "" if value is None else shown_line(str(value), _CELL_CHARACTERS)


def _field_detail(row: ExtractedRow, name: str) -> str:
    lines = [f"{row.name} · {name}"]
    for one in row.evidence_for(name):
        quote = f" “{' '.join(one.quote.split())}” {one.place}" if one.quote else ""
        value = "" if one.value is None else f"{one.value}  "
        lines.append(f"{one.path}: {value}{_VERDICTS[one.verdict]}{quote}")
    return "\n".join(lines)


def _row_detail(row: ExtractedRow) -> str:
    lines = [f"{row.source} · {row.parts} parts · {row.usage.input_tokens:,} tokens read"]
    if row.failure is not None:
        lines.append(f"failed: {row.failure.message}")
    lines += [f"problem: {problem}" for problem in row.problems]
    lines += [f"note: {note}" for note in row.notes]
    return "\n".join(lines)


def _source(row: ExtractedRow, found: FieldEvidence) -> SourceRow:
    return SourceRow(
        number=1,
        name=row.name,
        place=found.place,
        quote=found.quote,
        verdict=_VERDICTS[found.verdict],
        is_verified=True,
        document_id=row.document_id,
        start=found.start,
        end=found.end,
    )
