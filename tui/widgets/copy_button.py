"""A place to click that copies a block of code."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from tui.widgets.plain import Plain


class CopyButton(Plain):
    """Copies code when it is clicked; `y` on the turn does the same from the keyboard."""

    class Pressed(Message):
        """The user wants this code."""

        def __init__(self, code: str) -> None:
            super().__init__()
            self.code = code

    def __init__(self, code: Callable[[], str]) -> None:
        super().__init__("⧉ copy", classes="copy-code")
        self._code = code

    def on_click(self) -> None:
        """Ask for the code to be copied."""
        self.post_message(self.Pressed(self._code()))
