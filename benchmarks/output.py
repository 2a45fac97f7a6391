"""Shows a run while it happens and at its end: a line and a plot in a terminal, or JSON lines for a program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Literal, TextIO

from appliance.core.errors import Failure
from appliance.core.terminal_text import clean_for_terminal
from benchmarks.live_plot import LivePlot
from benchmarks.recorder import Progress
from benchmarks.records import Record
from benchmarks.tables import record_lines

ProgressMode = Literal["auto", "json", "none"]
_INTERVAL_S = 0.2
_LINE_INTERVAL_S = 5.0
_QUIET_S = 1.0
_CLEAR_LINE = "\r\x1b[K"


class RunOutput:
    """Hears every step and record of a run. Use it as the recorder's listener, then call `finish` or `fail` once.

    With `as_json` and progress `json`, standard output holds nothing but JSON lines: `progress` and `record` as they
    come, then one `finished` or `failed`.
    """

    def __init__(
        self, *, as_json: bool, progress: ProgressMode, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self._as_json = as_json
        self._streams = progress == "json"
        self._is_quiet = progress == "none"
        self._out, self._err = out or sys.stdout, err or sys.stderr
        is_terminal = self._err.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._plot = LivePlot(self._err) if is_terminal and progress == "auto" else None
        self._is_terminal = is_terminal
        self._began_s = perf_counter()
        self._shown_s = 0.0

    def __call__(self, event: Progress | Record) -> None:
        """Show a step or a record."""
        if self._streams:
            self._write_json(to_jsonable(event))
        elif isinstance(event, Progress) and not self._is_quiet:
            self._show(event)

    def finish(
        self,
        run: str,
        path: str,
        records: Sequence[Record],
        notes: Sequence[str],
        *,
        is_whole: bool,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Show the result; `extra` is for programs what the notes are for readers."""
        self._close_line()
        ending = {
            "run": run,
            "path": path if records else None,
            "is_whole": is_whole,
            "notes": list(notes),
            **(extra or {}),
        }
        if self._streams:
            self._write_json({"kind": "finished", **ending})
            return
        if self._as_json:
            document = {**ending, "records": [to_jsonable(record) for record in records]}
            self._out.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
            return
        lines = [*record_lines(records), *notes]
        if not is_whole and records:
            lines.append("partial: the run is not whole; what is above was measured")
        if records:
            lines.append(f"run {run}, kept in {path}")
        self._out.write("".join(clean_for_terminal(line) + "\n" for line in lines))

    def fail(self, failure: Failure) -> None:
        """Say on the JSON stream that the run failed; the command line reports the error itself."""
        self._close_line()
        if self._streams:
            self._write_json(
                {
                    "kind": "failed",
                    "failure": {"kind": failure.kind, "message": failure.message, "hint": failure.hint},
                }
            )

    def _show(self, event: Progress) -> None:
        now_s = perf_counter()
        if self._plot is not None and event.figure is not None:
            self._plot.add(event.text, event.figure, event.unit)
        interval_s = _INTERVAL_S if self._is_terminal else _LINE_INTERVAL_S
        if now_s - self._began_s < _QUIET_S or now_s - self._shown_s < interval_s:
            return
        self._shown_s = now_s
        line = clean_for_terminal(progress_line(event))
        if self._plot is not None:
            self._plot.draw(line, with_plot=event.is_idle)
        else:
            self._err.write(f"{line}\n")
        self._err.flush()

    def _close_line(self) -> None:
        if self._plot is not None:
            self._plot.close()

    def _write_json(self, value: object) -> None:
        self._out.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._out.flush()


def progress_line(event: Progress) -> str:
    """One step as a line."""
    figure = "" if event.figure is None else f": {event.figure:.4g} {event.unit}"
    count = f"{event.done}/{event.total} " if event.total else ""
    return f"{count}{event.text}{figure}"


def to_jsonable(event: Progress | Record) -> dict[str, object]:
    """A step or a record as plain JSON values."""
    if isinstance(event, Record):
        document: dict[str, object] = event.model_dump(mode="json")
        return document
    return {
        "kind": event.kind,
        "suite": event.suite,
        "done": event.done,
        "total": event.total,
        "text": event.text,
        "figure": event.figure,
        "unit": event.unit,
    }
