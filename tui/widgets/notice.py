"""A message to the user in a place of its own, so that it covers nothing of the conversation."""

from __future__ import annotations

from textual.timer import Timer

from tui.widgets.plain import Plain

_SHOWN_S = 6.0
_SHOWN_WHEN_BAD_S = 15.0


class Notice(Plain):
    """Shows the last message for a while."""

    def __init__(self) -> None:
        super().__init__(id="notice")
        self._timer: Timer | None = None

    def tell(self, text: str, *, is_bad: bool) -> None:
        """Show a message; what failed stays longer."""
        self.show(text)
        self.set_class(is_bad, "bad")
        self.set_class(bool(text), "shown")
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_SHOWN_WHEN_BAD_S if is_bad else _SHOWN_S, self.clear)

    def clear(self) -> None:
        """Take the message away."""
        self.set_class(False, "shown")
