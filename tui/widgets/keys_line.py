"""The line of keys at the bottom: what acts on the marked turn comes first, and in a narrow terminal alone."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from tui.widgets.turn import TurnView

_WIDE_COLUMNS = 120
_ALWAYS = ("app.show('help')", "show('help')")


class KeysLine(Footer):
    """Leaves out what a narrow terminal has no room for; the help lists every key."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)

    def compose(self) -> ComposeResult:
        is_short = self.app.size.width < _WIDE_COLUMNS and isinstance(self.screen.focused, TurnView)
        of_turn = [binding.action for binding in TurnView.BINDINGS if isinstance(binding, Binding)]
        for key in super().compose():
            if not is_short or (isinstance(key, FooterKey) and key.action in (*of_turn, *_ALWAYS)):
                yield key
