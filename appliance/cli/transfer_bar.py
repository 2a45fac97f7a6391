"""Shows the progress of work on weights files on standard error, once it takes longer than a second."""

from __future__ import annotations

import sys
from time import perf_counter
from types import TracebackType
from typing import Self

from appliance.catalog.progress import TransferProgress
from appliance.catalog.store import human_bytes

_QUIET_S = 1.0
_TERMINAL_INTERVAL_S = 0.1
_LINE_INTERVAL_S = 5.0
_CLEAR_LINE = "\r\x1b[K"
_WORDS = {"waiting": "waiting for", "fetching": "fetching", "checking": "checking", "copying": "copying"}


class TransferBar:
    """Call it with each progress; use it as a context so that the line goes away at the end."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._started_s = perf_counter()
        self._shown_s = 0.0
        self._is_line_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_line_open:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()

    def __call__(self, progress: TransferProgress) -> None:
        now_s = perf_counter()
        interval_s = _TERMINAL_INTERVAL_S if self._is_terminal else _LINE_INTERVAL_S
        is_due = now_s - self._started_s >= _QUIET_S and now_s - self._shown_s >= interval_s
        if not is_due and progress.stage != "waiting":
            return
        self._shown_s = now_s
        line = _described(progress)
        if self._is_terminal:
            sys.stderr.write(f"{_CLEAR_LINE}{line}")
            self._is_line_open = True
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _described(progress: TransferProgress) -> str:
    words = [_WORDS[progress.stage], progress.file]
    if progress.total_bytes:
        share = min(progress.done_bytes / progress.total_bytes, 1.0)
        words.append(
            f"{human_bytes(progress.done_bytes)} of {human_bytes(progress.total_bytes)} ({share:.0%})"
        )
    elif progress.done_bytes:
        words.append(human_bytes(progress.done_bytes))
    if progress.note:
        words.append(f"({progress.note})")
    return " ".join(words)
