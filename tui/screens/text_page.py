"""A page of text to read: receipts, help, a document."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer

from tui.clean import shown
from tui.screens.frame import Frame
from tui.widgets.plain import Plain

_MOST_CHARACTERS = 400_000


class TextPage(Frame):
    """Text that scrolls; c copies it, Escape goes back."""

    CSS_PATH = "text_page.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "Back"),
        Binding("c", "copy_all", "Copy"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._page_title = title
        self._text = text

    def compose(self) -> ComposeResult:
        yield Plain(self._page_title, classes="page-title")
        with VerticalScroll(id="page"):
            yield Plain(self._shown_text(), id="page-text")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one("#page").focus()

    def action_back(self) -> None:
        """Go back to the screen before."""
        self.app.pop_screen()

    def action_copy_all(self) -> None:
        """Copy the whole text."""
        self.copy(shown(self._text), "page")

    def _shown_text(self) -> str:
        if len(self._text) <= _MOST_CHARACTERS:
            return self._text
        rest = len(self._text) - _MOST_CHARACTERS
        return f"{self._text[:_MOST_CHARACTERS]}\n… {rest:,} more characters are not shown"
