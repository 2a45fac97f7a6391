"""The place in a chat above which a summary stands for the turns in the prompt."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from appliance.memory.turns import Summary
from tui.widgets.plain import Plain


class Fold(Plain, can_focus=True):
    """A line that opens the summary."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Read the summary"),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    class Opened(Message):
        """The user wants to read what stands for the turns above."""

        def __init__(self, summary: Summary) -> None:
            super().__init__()
            self.summary = summary

    def __init__(self, summary: Summary) -> None:
        count = len(summary.covered_turn_ids)
        super().__init__(f"── {count} turns above stand in the prompt as a summary ──", classes="remark fold")
        self._summary = summary

    def on_click(self) -> None:
        """Open the summary."""
        self.action_open()

    def action_open(self) -> None:
        """Ask for the summary."""
        self.post_message(self.Opened(self._summary))
