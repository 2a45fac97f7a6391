"""Long work on a screen: one line of progress, and the last outcomes above it."""

from __future__ import annotations

from collections import deque

from tui.rows import WorkEvent, WorkLine, WorkProgress
from tui.widgets.plain import Plain

_BAR_CELLS = 24
_KEPT_LINES = 5
_UNITS = ("B", "KB", "MB", "GB", "TB")


def human_bytes(size: int) -> str:
    """Write a number of bytes for people."""
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_UNITS[-1]}"


class WorkLines(Plain):
    """Shows what long work reports."""

    def __init__(self) -> None:
        super().__init__(classes="work")
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._progress = ""

    def begin(self, text: str) -> None:
        """Show that work begins."""
        self._lines.clear()
        self._progress = text
        self._refresh_text()

    def take(self, event: WorkEvent) -> None:
        """Show what was reported."""
        match event:
            case WorkProgress():
                self._progress = progress_line(event)
            case WorkLine():
                self._lines.append(f"{'✗' if event.is_bad else '✓'} {event.text}")
        self._refresh_text()

    def end(self, text: str = "") -> None:
        """Show only the outcomes."""
        self._progress = ""
        if text:
            self._lines.append(text)
        self._refresh_text()

    def _refresh_text(self) -> None:
        lines = [*self._lines, *([self._progress] if self._progress else [])]
        self.set_class(bool(lines), "shown")
        self.show("\n".join(lines))


def progress_line(event: WorkProgress) -> str:
    """Write progress as a bar with figures."""
    note = f" · {event.note}" if event.note else ""
    if not event.total:
        done = f" {_amount(event.done, event.unit)}" if event.done else ""
        return f"{event.what}{done}{note}"
    share = min(1.0, event.done / event.total)
    filled = round(share * _BAR_CELLS)
    bar = "█" * filled + "░" * (_BAR_CELLS - filled)
    figures = f"{_amount(event.done, event.unit)} of {_amount(event.total, event.unit)}"
    return f"{event.what}  {bar} {share:4.0%}  {figures}{note}"


def _amount(count: int, unit: str) -> str:
    return human_bytes(count) if unit == "bytes" else f"{count:,}"
