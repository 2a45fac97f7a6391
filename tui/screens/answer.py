"""An answer from documents with its sources beside it; a source opens the document at the quote."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError
from tui.clean import shown_line
from tui.rows import SourcedAnswer, SourceRow
from tui.screens.frame import Frame
from tui.widgets.plain import Plain

_NEIGHBOURHOOD_CHARACTERS = 20_000


class AnswerScreen(Frame):
    """The answer on one side, its numbered sources on the other."""

    CSS_PATH = "answer.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "Back"),
        Binding("c", "copy_answer", "Copy"),
    ]

    def __init__(self, question: str, text: str, answer: SourcedAnswer) -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._answer = answer

    def compose(self) -> ComposeResult:
        yield Plain(shown_line(self._question), classes="page-title")
        with Horizontal(id="both"):
            with VerticalScroll(id="answer"):
                yield Plain(self._text)
                yield Plain("\n".join(self._answer.notes), classes="notes")
            yield OptionList(id="sources", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List the sources."""
        sources = self.query_one("#sources", OptionList)
        sources.add_options(
            Option(_source_line(row), id=str(position)) for position, row in enumerate(self._answer.sources)
        )
        sources.highlighted = 0 if self._answer.sources else None
        sources.display = bool(self._answer.sources)
        sources.focus()

    @on(OptionList.OptionSelected)
    async def _open_source(self, event: OptionList.OptionSelected) -> None:
        source = self._answer.sources[int(event.option.id or 0)]
        if not source.document_id:
            self.notify_plain("this quote stands in no document", is_bad=True)
            return
        try:
            text = await self.session.library.text_of(source.document_id)
        except ApplianceError as exc:
            self.tell(exc)
            return
        await self.app.push_screen(QuotePage(source, text))

    def action_back(self) -> None:
        """Go back."""
        self.app.pop_screen()

    def action_copy_answer(self) -> None:
        """Copy the answer with its sources."""
        sources = [f"[{row.number}] {row.name} {row.place}: “{row.quote}”" for row in self._answer.sources]
        self.copy("\n".join([self._text, "", *sources]), "answer")


class QuotePage(Frame):
    """The text of a document at a quote, which is marked."""

    CSS_PATH = "answer.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "back", "Back")]

    def __init__(self, source: SourceRow, text: str) -> None:
        super().__init__()
        self._source = source
        self._text = text

    def compose(self) -> ComposeResult:
        source, text = self._source, self._text
        first = max(0, source.start - _NEIGHBOURHOOD_CHARACTERS)
        last = min(len(text), source.end + _NEIGHBOURHOOD_CHARACTERS)
        yield Plain(shown_line(f"{source.name} {source.place} · {source.verdict}"), classes="page-title")
        with VerticalScroll(id="document"):
            yield Plain(("… " if first else "") + text[first : source.start])
            yield Plain(text[source.start : source.end], id="quote")
            yield Plain(text[source.end : last] + (" …" if last < len(text) else ""))
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Go to the quote."""
        page = self.query_one("#document", VerticalScroll)
        page.focus()
        quote = self.query_one("#quote")
        self.call_after_refresh(lambda: page.scroll_to_widget(quote, animate=False, center=True))

    def action_back(self) -> None:
        """Go back."""
        self.app.pop_screen()


def _source_line(row: SourceRow) -> Content:
    mark, style = ("✓ ", "$text-success") if row.is_verified else ("✗ UNVERIFIED ", "bold $text-error")
    head = Content.assemble(
        (f"[{row.number}] ", "bold"), (mark, style), shown_line(f"{row.name} {row.place}", 100)
    )
    quote = Content.assemble((f"“{shown_line(row.quote, 240)}”", "italic"))
    return Content("\n").join([head, quote, Content("")])
