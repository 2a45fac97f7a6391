"""Turns a compiler's output into one line of progress, or a few plain lines where output is no terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TextIO

_NINJA_STEP = re.compile(r"^\s*\[(\d+)/(\d+)\]")
_MAKE_PERCENT = re.compile(r"^\s*\[\s*(\d+)%\]")
_REDRAW_AFTER_S = 0.5
_PLAIN_STEP_PERCENT = 10


def parse_percent(line: str) -> int | None:
    """Read how far a build is from a line of ninja (`[12/140]`) or make (`[ 8%]`)."""
    if match := _NINJA_STEP.match(line):
        done, total = int(match[1]), int(match[2])
        return min(100, 100 * done // total) if total else None
    if match := _MAKE_PERCENT.match(line):
        return min(100, int(match[1]))
    return None


class BuildProgress:
    """Shows percent and elapsed time. A build in two passes never goes backwards."""

    def __init__(self, stream: TextIO, *, label: str, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._stream = stream
        self._label = label
        self._now_s = now_s
        self._started_s = now_s()
        self._drawn_s = float("-inf")
        self._is_terminal = stream.isatty()
        self._shown_percent = -_PLAIN_STEP_PERCENT
        self.percent = 0
        self.has_started = False

    def feed(self, line: str) -> None:
        """Take one line of the build's output."""
        percent = parse_percent(line)
        if percent is not None:
            self.has_started = True
            self.percent = max(self.percent, percent)
        if self._is_terminal:
            self._redraw()
        elif percent is not None and self.percent >= self._shown_percent + _PLAIN_STEP_PERCENT:
            self._shown_percent = self.percent // _PLAIN_STEP_PERCENT * _PLAIN_STEP_PERCENT
            self._stream.write(f"{self._line()}\n")
            self._stream.flush()

    def close(self) -> None:
        """End the line of a terminal."""
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{self._line()}\n")
            self._stream.flush()

    def _redraw(self) -> None:
        now_s = self._now_s()
        if now_s - self._drawn_s < _REDRAW_AFTER_S:
            return
        self._drawn_s = now_s
        self._stream.write(f"\r\x1b[K{self._line()}")
        self._stream.flush()

    def _line(self) -> str:
        minutes, seconds = divmod(int(self._now_s() - self._started_s), 60)
        return f"{self._label}  {self.percent:3d}%  {minutes}:{seconds:02d}"
