"""The lines above the input: what can be completed, or what is being edited."""

from __future__ import annotations

from collections.abc import Sequence

from tui.widgets.plain import Plain

_MOST_LINES = 7


class Hints(Plain):
    """Shows a few lines, or nothing."""

    def __init__(self) -> None:
        super().__init__(id="hints")

    def show_lines(self, lines: Sequence[str], *, more: str = "Tab completes") -> None:
        """Show the first of the lines, and how many there are beside them."""
        listed = list(lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            listed.append(f"… {len(lines) - _MOST_LINES} more · {more}")
        self.set_class(bool(listed), "shown")
        self.show("\n".join(listed))
