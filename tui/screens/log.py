"""What happened: the latest requests, each as a tree of spans with their times, and what the workers wrote."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from tui.clean import shown_cell, shown_line
from tui.counting import counted
from tui.rows import SpanRow, TraceRow
from tui.screens.frame import Frame
from tui.screens.text_page import TextPage
from tui.widgets.plain import Plain

_BAR_CELLS = 16
_NAME_CELLS = 34
_EMPTY = "No request was traced yet. Ask something first; w shows what the workers wrote."


class LogScreen(Frame):
    """Requests, newest first; Enter opens one whole."""

    CSS_PATH = "rows.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("w", "workers", "Workers"),
        Binding("r", "again", "Refresh"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[SpanRow] = []

    def compose(self) -> ComposeResult:
        yield Plain("Log", classes="page-title")
        yield OptionList(classes="rows", markup=False)
        with VerticalScroll(classes="detail"):
            yield Plain(id="detail")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List the requests."""
        self.query_one(OptionList).focus()
        self.action_again()

    def action_again(self) -> None:
        """Look again."""
        self.fetch(self.session.log.traces(), self._show_traces, group="traces")

    def action_back(self) -> None:
        """Go back."""
        self.app.pop_screen()

    def action_workers(self) -> None:
        """Show what the workers wrote."""
        self.fetch(self.session.log.lines(), self._show_lines, group="lines")

    async def _show_lines(self, lines: list[str]) -> None:
        text = "\n".join(lines) or "The workers wrote nothing."
        await self.app.push_screen(TextPage("What the workers wrote", text))

    def _show_traces(self, traces: list[TraceRow]) -> None:
        self.query_one(".page-title", Plain).show(
            f"Log · {counted(len(traces), 'request')} · names and numbers, no texts"
        )
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options(Option(_trace_line(row), id=row.trace_id) for row in traces)
        listed.highlighted = 0 if traces else None
        if not traces:
            self.query_one("#detail", Plain).show(_EMPTY)

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        if event.option.id:
            self.fetch(self.session.log.spans(event.option.id), self._show_spans, group="spans")

    @on(OptionList.OptionSelected)
    async def _open(self) -> None:
        lines = [
            line for row in self._spans for line in (*span_lines([row], whole_s(self._spans)), row.facts)
        ]
        await self.app.push_screen(TextPage("Request", "\n".join(lines)))

    def _show_spans(self, spans: list[SpanRow]) -> None:
        self._spans = spans
        self.query_one("#detail", Plain).show("\n".join(span_lines(spans, whole_s(spans))))


def whole_s(spans: Sequence[SpanRow]) -> float:
    """Return how long a request took from its first span to its last."""
    return max((row.start_s + row.duration_s for row in spans), default=0.0)


def span_lines(spans: Sequence[SpanRow], total_s: float) -> list[str]:
    """Return spans as lines of a tree: name, where in the request it lies, when it began and how long it took."""
    return [
        f"{row.strokes + shown_cell(row.name, _NAME_CELLS - len(row.strokes))} {_bar(row, total_s)} "
        f"+{seconds(row.start_s):<9}{seconds(row.duration_s):<10}{'' if row.status == 'ok' else row.status}".rstrip()
        for row in spans
    ]


def seconds(duration_s: float) -> str:
    """Write a duration for people."""
    return f"{duration_s:.2f} s" if duration_s >= 1 else f"{duration_s * 1000:.1f} ms"


def _bar(row: SpanRow, total_s: float) -> str:
    if total_s <= 0:
        return " " * _BAR_CELLS
    first = min(_BAR_CELLS - 1, int(row.start_s / total_s * _BAR_CELLS))
    cells = max(1, min(_BAR_CELLS - first, round(row.duration_s / total_s * _BAR_CELLS)))
    return "·" * first + "█" * cells + "·" * (_BAR_CELLS - first - cells)


def _trace_line(row: TraceRow) -> Content:
    style = {"ok": "$text-success", "error": "$text-error"}.get(row.status, "$text-warning")
    when = time.strftime("%m-%d %H:%M:%S", time.localtime(row.started_at_s))
    return Content.assemble(
        (when, "$text-muted"),
        f"  {seconds(row.duration_s):>9}  ",
        (f"{row.status:<10}", style),
        f"{shown_cell(row.name, 26)} ",
        (shown_line(row.model, 40), "$text-muted"),
    )
