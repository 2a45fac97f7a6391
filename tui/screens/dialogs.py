"""Small questions: write a text, choose one of many, say yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui.clean import shown_line, typed
from tui.widgets.plain import Plain


class AskText(ModalScreen[str | None]):
    """Asks for one line of text."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, question: str, text: str = "", *, placeholder: str = "") -> None:
        super().__init__()
        self._question = question
        self._text = typed(text)
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Plain(self._question, classes="question")
            yield Input(self._text, placeholder=self._placeholder)
            yield Plain("Enter takes it · Esc leaves it", classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Asks yes or no; Enter alone is no."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,enter", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Plain(self._question, classes="question")
            yield Plain("y yes · n no", classes="hint")

    def action_answer(self, is_yes: bool) -> None:
        """Return the answer."""
        self.dismiss(is_yes)


class Pick(ModalScreen[int | None]):
    """Choose one of many lines; typing narrows them."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
    ]

    def __init__(self, question: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._lines = [shown_line(line, 200) for line in lines]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Plain(self._question, classes="question")
            yield Input(placeholder="type to narrow")
            yield OptionList(markup=False)
            yield Plain("Enter takes it · Esc leaves", classes="hint")

    def on_mount(self) -> None:
        """Show every line."""
        self._narrow("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the lines that hold what was typed."""
        self._narrow(event.value)

    def on_input_submitted(self) -> None:
        """Return the line that is marked."""
        option = self.query_one(OptionList).highlighted_option
        self.dismiss(int(option.id) if option and option.id else None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the chosen line."""
        self.dismiss(int(event.option.id) if event.option.id else None)

    def action_move(self, step: int) -> None:
        """Move the mark."""
        listed = self.query_one(OptionList)
        if step > 0:
            listed.action_cursor_down()
        else:
            listed.action_cursor_up()

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    def _narrow(self, needle: str) -> None:
        words = needle.casefold().split()
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options(
            Option(Content(line), id=str(position))
            for position, line in enumerate(self._lines)
            if all(word in line.casefold() for word in words)
        )
        listed.highlighted = 0 if listed.option_count else None


class PickMany(ModalScreen[list[int] | None]):
    """Choose any of many lines: Space marks one, a marks all or none, Enter takes the marked."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("space", "mark", show=False, priority=True),
        Binding("a", "mark_all", show=False),
        Binding("enter", "take", show=False, priority=True),
    ]

    def __init__(self, question: str, lines: Sequence[str], chosen: set[int]) -> None:
        super().__init__()
        self._question = question
        self._lines = [shown_line(line, 200) for line in lines]
        self._chosen = set(chosen)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Plain(self._question, classes="question")
            yield OptionList(markup=False)
            yield Plain("Space marks · a all or none · Enter takes them · Esc leaves", classes="hint")

    def on_mount(self) -> None:
        """Show every line."""
        listed = self.query_one(OptionList)
        listed.add_options(Option(self._line(place), id=str(place)) for place in range(len(self._lines)))
        listed.highlighted = 0 if self._lines else None
        listed.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click marks a line."""
        self._toggle(int(event.option.id or 0))

    def action_mark(self) -> None:
        """Mark the line, or let it go."""
        option = self.query_one(OptionList).highlighted_option
        if option is not None:
            self._toggle(int(option.id or 0))

    def action_mark_all(self) -> None:
        """Mark every line; where all are marked, none."""
        every = set(range(len(self._lines)))
        self._chosen = set() if self._chosen == every else every
        for place in every:
            self._redraw(place)

    def action_take(self) -> None:
        """Return the places of the marked lines; with none marked, that of the line under the cursor."""
        option = self.query_one(OptionList).highlighted_option
        if not self._chosen and option is not None:
            self._chosen = {int(option.id or 0)}
        self.dismiss(sorted(self._chosen))

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    def _toggle(self, place: int) -> None:
        self._chosen ^= {place}
        self._redraw(place)

    def _redraw(self, place: int) -> None:
        self.query_one(OptionList).replace_option_prompt(str(place), self._line(place))

    def _line(self, place: int) -> Content:
        mark = ("[x] ", "$text-success") if place in self._chosen else ("[ ] ", "$text-muted")
        return Content.assemble(mark, self._lines[place])
