"""Writes an answer as it comes: text to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from typing import TextIO, assert_never

from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.terminal_text import clean_for_terminal

_ERASE_LINE = "\r\x1b[K"
_SHOWN_FROM_TOKENS = 512


class AnswerScreen:
    """A terminal sees cleaned text and progress; a pipe gets the answer's exact text and nothing else."""

    def __init__(
        self,
        output: TextIO | None = None,
        notes: TextIO | None = None,
        *,
        shows_text: bool = True,
        shows_reasoning: bool = False,
        ends_line: bool = False,
    ) -> None:
        self._output = sys.stdout if output is None else output
        self._notes = sys.stderr if notes is None else notes
        self._shows_text = shows_text
        self._shows_reasoning = shows_reasoning
        self._is_terminal = self._output.isatty()
        self._ends_line = ends_line or self._is_terminal
        self._shows_progress = self._notes.isatty()
        self._has_progress = False
        self._last_written = "\n"
        self._is_thinking = False

    def show(self, event: StreamEvent) -> None:
        """Write what an event brings."""
        match event:
            case TextDelta():
                self._end_thinking()
                self._write_text(event.text)
            case ReasoningDelta():
                self._show_reasoning(event.text)
            case LoadProgress():
                self.progress(f"loading the model {event.fraction:4.0%}")
            case PrefillProgress():
                self._show_prefill(event)
            case Completed() | Failed():
                self._end_thinking()
            case ToolCallDelta() | UsageReported():
                pass
            case _:
                assert_never(event)

    def finish(self) -> None:
        """End the line of the answer on a terminal, and wherever more answers follow."""
        self.clear_progress()
        if self._ends_line and not self._last_written.endswith("\n"):
            self._output.write("\n")
            self._output.flush()
            self._last_written = "\n"

    def note(self, text: str) -> None:
        """Write a line on standard error."""
        self.clear_progress()
        self._notes.write(clean_for_terminal(text) + "\n")
        self._notes.flush()

    def progress(self, text: str) -> None:
        """Show a line that the next one replaces, where standard error is a terminal."""
        if self._shows_progress:
            self._notes.write(_ERASE_LINE + text)
            self._notes.flush()
            self._has_progress = True

    def clear_progress(self) -> None:
        """Take the progress line away."""
        if self._has_progress:
            self._notes.write(_ERASE_LINE)
            self._notes.flush()
            self._has_progress = False

    def _write_text(self, text: str) -> None:
        self.clear_progress()
        if not self._shows_text:
            return
        shown = clean_for_terminal(text) if self._is_terminal else text
        if shown:
            self._output.write(shown)
            self._output.flush()
            self._last_written = shown

    def _show_reasoning(self, text: str) -> None:
        if not self._shows_reasoning:
            self.progress("thinking …")
            return
        self.clear_progress()
        self._is_thinking = True
        self._notes.write(clean_for_terminal(text))
        self._notes.flush()

    def _end_thinking(self) -> None:
        if self._is_thinking:
            self._is_thinking = False
            self._notes.write("\n\n")
            self._notes.flush()

    def _show_prefill(self, event: PrefillProgress) -> None:
        if event.processed_tokens >= event.total_tokens:
            self.clear_progress()
        elif event.total_tokens - event.cached_tokens >= _SHOWN_FROM_TOKENS:
            self.progress(f"reading {event.processed_tokens} of {event.total_tokens} tokens")
