"""Documents and collections: add, look, search with scores, remove."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Footer, Input, OptionList
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError
from tui.clean import shown_cell, shown_line
from tui.counting import counted
from tui.rows import DocumentRow, PassageRow, SearchView
from tui.screens.dialogs import AskText, Confirm
from tui.screens.text_page import TextPage
from tui.screens.working import WorkingScreen
from tui.widgets.plain import Plain
from tui.widgets.work_lines import WorkLines

_DEFAULT_COLLECTION = "default"
_EXCERPT_CHARACTERS = 400


class LibraryScreen(WorkingScreen):
    """The documents of every collection, or what a search found in them."""

    CSS_PATH = "rows.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        # Priority: what is typed right behind the slash must find the field focused, or it would be commands.
        Binding("slash", "search", "Search", priority=True),
        Binding("a", "add", "Add"),
        Binding("d,delete", "remove", "Remove"),
        Binding("w", "why", "Why"),
        Binding("q", "ask", "Ask them"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._documents: dict[str, DocumentRow] = {}
        self._found: SearchView | None = None

    def compose(self) -> ComposeResult:
        yield Plain("Library · opening…", classes="page-title")
        yield Input(placeholder="search the documents by words and meaning: / and Enter", classes="field")
        yield OptionList(classes="rows", markup=False)
        yield WorkLines()
        with VerticalScroll(classes="detail", can_focus=False):
            yield Plain(id="detail")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List the documents; opening the library loads the embedder, which takes a moment."""
        self.query_one(OptionList).focus()
        self._fill()

    async def action_back(self) -> None:
        """Leave the search, then stop work, then the screen."""
        field = self.query_one(Input)
        if field.has_focus or self._found is not None:
            field.value = ""
            self._found = None
            self.query_one(OptionList).focus()
            await self.refill()
            return
        await super().action_back()

    def _fill(self) -> None:
        self.fetch(
            self.session.library.documents(), self._show_documents, group="fill", on_error=self._show_unopened
        )

    async def refill(self) -> None:
        """List the documents as they are now."""
        self._fill()

    def _show_unopened(self, error: ApplianceError) -> None:
        self.query_one(".page-title", Plain).show("Library · cannot be opened")
        self.query_one("#detail", Plain).show(f"{error.message}\n{error.hint}")

    def _show_documents(self, documents: list[DocumentRow]) -> None:
        self._documents = {row.document_id: row for row in documents}
        failed = sum(not row.is_ready for row in documents)
        names = sorted({row.collection for row in documents})
        self.query_one(".page-title", Plain).show(
            f"Library · documents: {len(documents)} · collections: {len(names)}"
            + (f" · {failed} failed" if failed else "")
        )
        self._list([Option(_document_line(row), id=row.document_id) for row in documents])
        if not documents:
            self.query_one("#detail", Plain).show("No documents yet. a adds a file or a folder.")

    def action_search(self) -> None:
        """Go to the search field; there, a slash is a slash."""
        field = self.query_one(Input)
        if field.has_focus:
            field.insert_text_at_cursor("/")
        else:
            self.set_focus(field)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.search(event.value.strip())

    def search(self, question: str) -> None:
        """Search by words and meaning."""
        self.query_one(".page-title", Plain).show("Library · searching…")
        self.fetch(
            self.session.library.search(question), self._show_found, group="search", on_error=self._not_found
        )

    async def _not_found(self, error: ApplianceError) -> None:
        self.tell(error)
        await self.refill()

    def _show_found(self, found: SearchView) -> None:
        self._found = found
        self.query_one(".page-title", Plain).show(
            f"Library · found: {len(found.passages)} of {counted(found.searched_chunks, 'passage')} "
            f"in {found.duration_s * 1000:.0f} ms"
        )
        self._list([Option(_passage_line(row), id=str(n)) for n, row in enumerate(found.passages)])
        if not found.passages:
            self.query_one("#detail", Plain).show("\n".join(["Nothing was found.", *found.notes]))
        self.query_one(OptionList).focus()

    async def action_add(self) -> None:
        """Let the user choose a file or folder and a collection, and bring it in."""
        from tui.screens.file_picker import FilePicker

        async def with_collection(path: str | None) -> None:
            if not path or not path.strip():
                return
            named = path.strip()

            def add(collection: str | None) -> None:
                if collection is not None:
                    name = collection.strip() or _DEFAULT_COLLECTION
                    self.start(f"adding {named}", self.session.library.add(named, name))

            await self.app.push_screen(AskText("Into which collection?", _DEFAULT_COLLECTION), add)

        await self.app.push_screen(FilePicker("Add which file or folder?"), with_collection)

    async def action_remove(self) -> None:
        """Ask, then remove the marked document for good."""
        row = self._marked_document()
        if row is None:
            return

        async def remove(is_sure: bool | None) -> None:
            if not is_sure:
                return
            try:
                self.query_one(WorkLines).begin(f"removing {row.name}…")
                receipt = await self.session.library.remove(row.document_id)
                self.query_one(WorkLines).end(f"✓ {receipt}")
            except ApplianceError as exc:
                self.query_one(WorkLines).end(f"✗ {exc.message}")
                self.tell(exc)
            await self.refill()

        await self.app.push_screen(Confirm(f"Remove {row.name} for good?"), remove)

    async def action_ask(self) -> None:
        """Ask the documents in the chat."""

        async def ask(question: str | None) -> None:
            if question and question.strip():
                await self.ui.ask_documents(question.strip())

        await self.app.push_screen(AskText("What do you want to know from the documents?"), ask)

    async def action_why(self) -> None:
        """Show the trace of the search: every candidate with its ranks, and what was cut."""
        if self._found is None:
            self.notify_plain("search first: /")
            return
        await self.app.push_screen(TextPage("Why this order", "\n".join(_trace_lines(self._found))))

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        option_id = event.option.id or ""
        if self._found is not None:
            text = _passage_detail(self._found.passages[int(option_id)])
        else:
            text = _document_detail(self._documents[option_id])
        self.query_one("#detail", Plain).show(text)

    @on(OptionList.OptionSelected)
    async def _preview(self, event: OptionList.OptionSelected) -> None:
        option_id = event.option.id or ""
        if self._found is not None:
            passage = self._found.passages[int(option_id)]
            await self.app.push_screen(TextPage(f"{passage.name} {passage.place}", passage.text))
            return
        row = self._documents[option_id]
        try:
            text = await self.session.library.text_of(row.document_id)
        except ApplianceError as exc:
            self.tell(exc)
            return
        await self.app.push_screen(TextPage(row.name, text or row.problem or "no text"))

    def _marked_document(self) -> DocumentRow | None:
        option = self.query_one(OptionList).highlighted_option
        if self._found is not None or option is None:
            return None
        return self._documents.get(option.id or "")

    def _list(self, options: list[Option]) -> None:
        listed = self.query_one(OptionList)
        mark = listed.highlighted or 0
        listed.clear_options()
        self.query_one("#detail", Plain).show("")
        listed.add_options(options)
        listed.highlighted = min(mark, len(options) - 1) if options else None


def _document_line(row: DocumentRow) -> Content:
    mark, style = ("✓ ", "$text-success") if row.is_ready else ("✗ ", "$text-error")
    if row.is_ready and row.problem:
        mark, style = "! ", "$text-warning"
    pages = f"{row.page_count} p" if row.page_count else ""
    return Content.assemble(
        (mark, style),
        f"{shown_cell(row.name, 39)} ",
        (
            f"{shown_cell(row.collection, 13)} {pages:>7}{counted(row.chunk_count, 'passage'):>15}",
            "$text-muted",
        ),
    )


def _document_detail(row: DocumentRow) -> str:
    lines = [row.source]
    if row.problem:
        lines.append(f"{'note' if row.is_ready else 'failed'}: {row.problem}")
    if row.missing_vectors:
        lines.append(
            f"{counted(row.missing_vectors, 'passage')} without a vector yet: found by words, not by meaning"
        )
    return "\n".join(lines)


def _passage_line(row: PassageRow) -> Content:
    similarity = f" ≈{row.similarity:.2f}" if row.similarity is not None else ""
    return Content.assemble(
        (f"{row.score:5.3f}{similarity:<6} ", "$text-success"),
        (f"{shown_line(row.name, 28)} {shown_line(row.place, 16)}  ", "bold"),
        (shown_line(row.text, 90), "$text-muted"),
    )


def _passage_detail(row: PassageRow) -> str:
    excerpt = row.text if len(row.text) <= _EXCERPT_CHARACTERS else f"{row.text[:_EXCERPT_CHARACTERS]}…"
    return f"{_ranks(row)}\n{excerpt}"


def _ranks(row: PassageRow) -> str:
    by_meaning = f"{row.dense_rank}. by meaning" if row.dense_rank else "not found by meaning"
    by_words = f"{row.text_rank}. by words" if row.text_rank else "not found by words"
    return f"{by_meaning} · {by_words} · score {row.score:.3f}"


def _trace_lines(found: SearchView) -> list[str]:
    lines = [
        f"{counted(found.searched_chunks, 'passage')} searched in {found.duration_s * 1000:.0f} ms",
        *found.notes,
        "",
    ]
    for position, row in enumerate(found.passages, start=1):
        lines.append(f"{position:>3}. {row.name} {row.place}\n     {_ranks(row)}")
    if found.cut:
        lines += ["", "Cut"]
        lines += [f"   - {row.name} {row.place}: {row.cut}\n     {_ranks(row)}" for row in found.cut]
    return lines
