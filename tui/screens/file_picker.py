"""Chooses a file or a folder: type a path, or walk through the folders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui.clean import shown_line
from tui.widgets.plain import Plain

_MOST_ENTRIES = 500


class FilePicker(ModalScreen[str | None]):
    """Returns the chosen path. Enter takes it, Right goes into a folder, Left out of it."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("tab", "enter_folder", show=False, priority=True),
        Binding("right", "right", show=False, priority=True),
        Binding("left", "left", show=False, priority=True),
    ]

    class Listed(Message):
        """A folder was read; `entries` end with a slash where they are folders."""

        def __init__(self, folder: Path, entries: list[str], problem: str) -> None:
            super().__init__()
            self.folder = folder
            self.entries = entries
            self.problem = problem

    def __init__(self, question: str, folder: Path | None = None) -> None:
        super().__init__()
        self._question = question
        self._folder = (folder or Path.cwd()).absolute()
        self._entries: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Plain(self._question, classes="question")
            yield Plain(id="folder")
            yield Input(placeholder="type to narrow, or a path such as ~/Documents/report.pdf")
            yield OptionList(markup=False)
            yield Plain(
                "Enter takes it · → or Tab goes into a folder · ← out of it · Esc leaves", classes="hint"
            )

    def on_mount(self) -> None:
        """Show the folder the program runs in."""
        self._go(self._folder)

    @on(Listed)
    def _show(self, message: Listed) -> None:
        self._folder, self._entries = message.folder, message.entries
        self.query_one("#folder", Plain).show(f"{message.folder}{message.problem}")
        self.query_one(Input).value = ""
        self._narrow("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text.startswith(("/", "~", "./", "../")):
            self.dismiss(text)
        elif (marked := self._marked()) is not None:
            self.dismiss(str(self._folder / marked))
        elif text:
            self.dismiss(str(self._folder / text))

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        if (marked := self._marked()) is not None:
            self.dismiss(str(self._folder / marked))

    def action_move(self, step: int) -> None:
        """Mark the line above or below."""
        listed = self.query_one(OptionList)
        if listed.option_count:
            listed.highlighted = ((listed.highlighted or 0) + step) % listed.option_count

    def action_right(self) -> None:
        """Go into the marked folder, or move in what was typed."""
        self._unless_typing(self.action_enter_folder, lambda field: field.action_cursor_right())

    def action_left(self) -> None:
        """Go out of the folder, or move in what was typed."""
        self._unless_typing(self._go_up, lambda field: field.action_cursor_left())

    def action_enter_folder(self) -> None:
        """Go into the marked folder; a path that was typed is followed."""
        text = self.query_one(Input).value.strip()
        if text.startswith(("/", "~")):
            self._go(Path(text).expanduser())
        elif (marked := self._marked()) is not None and marked.endswith("/"):
            self._go(self._folder / marked)

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    def _unless_typing(self, act: Callable[[], None], move: Callable[[Input], None]) -> None:
        field = self.query_one(Input)
        if field.value:
            move(field)
        else:
            act()

    def _go_up(self) -> None:
        self._go(self._folder.parent)

    def _go(self, folder: Path) -> None:
        async def read() -> None:
            entries, problem = await asyncio.to_thread(_entries_of, folder)
            self.post_message(self.Listed(folder, entries, problem))

        self.run_worker(read(), exclusive=True, exit_on_error=False)

    def _marked(self) -> str | None:
        option = self.query_one(OptionList).highlighted_option
        return self._entries[int(option.id or 0)] if option else None

    def _narrow(self, needle: str) -> None:
        words = needle.casefold().split()
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options(
            Option(Content(shown_line(entry, 200)), id=str(position))
            for position, entry in enumerate(self._entries)
            if all(word in entry.casefold() for word in words)
        )
        listed.highlighted = 0 if listed.option_count else None


def _entries_of(folder: Path) -> tuple[list[str], str]:
    """List folders, then files; hidden ones are left out, for they are seldom meant."""
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
        folders = sorted(f"{path.name}/" for path in found if path.is_dir())
        files = sorted(path.name for path in found if not path.is_dir())
    except OSError as exc:
        return [], f" cannot be read: {exc.strerror}"
    entries = [*folders, *files]
    rest = len(entries) - _MOST_ENTRIES
    return entries[:_MOST_ENTRIES], f" · {rest} more are not listed, type a path" if rest > 0 else ""
