"""The field a question is written in: it grows, sends with Enter, and remembers what was asked."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from tui.clean import typed

NEWLINE_KEYS = ("shift+enter", "ctrl+j", "alt+enter")


class Prompt(TextArea):
    """A multi-line input. Posts what is to be sent; screens decide what that means."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "search_history", "History", show=False),
        Binding("ctrl+g", "open_editor", "Editor", show=False),
    ]

    class Submitted(Message):
        """The user wants this sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class HistoryWanted(Message):
        """The user wants to search what was asked before."""

    class EditorWanted(Message):
        """The user wants to write in an editor."""

    class ScrollWanted(Message):
        """A key that moves in the conversation was pressed here."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self) -> None:
        super().__init__(
            id="prompt",
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask something · Enter sends · Ctrl+J new line · / commands",
        )
        self._history: list[str] = []
        self._place = 0
        self._draft = ""

    def set_history(self, texts: list[str]) -> None:
        """Take what was asked before, oldest first."""
        self._history = [typed(text) for text in texts]
        self._place = len(self._history)

    def remember(self, text: str) -> None:
        """Add a question to the end of the history."""
        if not self._history or self._history[-1] != text:
            self._history.append(text)
        self._place = len(self._history)

    def write(self, text: str) -> None:
        """Replace the text and put the cursor behind it."""
        self.text = typed(text)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Submitted(self.text))
            return
        if event.key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
            return
        if event.key in ("pageup", "pagedown", "ctrl+end", "ctrl+home") or (
            event.key in ("home", "end") and not self.text
        ):
            event.stop()
            event.prevent_default()
            self.post_message(self.ScrollWanted(event.key))
            return
        await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self.insert(typed(event.text))

    def action_cursor_up(self, select: bool = False) -> None:
        """Go up, or to the question before when the cursor is on the first line."""
        if select or self.cursor_location[0] > 0 or not self._recall(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Go down, or to the question after when the cursor is on the last line."""
        is_last = self.cursor_location[0] == self.document.line_count - 1
        if select or not is_last or not self._recall(1):
            super().action_cursor_down(select)

    def action_search_history(self) -> None:
        """Ask for the list of what was asked before."""
        self.post_message(self.HistoryWanted())

    def action_open_editor(self) -> None:
        """Ask for an editor."""
        self.post_message(self.EditorWanted())

    def _recall(self, step: int) -> bool:
        place = self._place + step
        if not 0 <= place <= len(self._history):
            return False
        if self._place == len(self._history):
            self._draft = self.text
        self._place = place
        self.write(self._draft if place == len(self._history) else self._history[place])
        if step < 0:
            self.move_cursor((0, len(self.document.get_line(0))))
        return True
