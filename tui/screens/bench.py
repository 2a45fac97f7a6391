"""Measures the speed of the model that answers, live, and compares with earlier runs."""

from __future__ import annotations

from statistics import median
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
from tui.rows import BenchFigure, BenchMetric, BenchRecord, BenchRun
from tui.screens.text_page import TextPage
from tui.screens.working import WorkingScreen
from tui.widgets.plain import Plain
from tui.widgets.plot import Plot, figure_text
from tui.widgets.work_lines import WorkLines

_SHOWN_METRICS = 3
_HOW = (
    "r measures latency (time to first token, between tokens, end to end), e the engine alone. Nothing else should "
    "run meanwhile; what speaks against a figure is said beside it. c compares the marked run with the newest."
)


class BenchScreen(WorkingScreen):
    """Results of this run, then the runs that are kept."""

    CSS_PATH = "rows.tcss"
    STOPPED = "stopped; only a measurement that ran to its end is kept"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("r", "measure('latency')", "Latency"),
        Binding("e", "measure('engine')", "Engine"),
        Binding("c", "compare", "Compare"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._records: list[BenchRecord] = []
        self._runs: list[BenchRun] = []

    def compose(self) -> ComposeResult:
        yield Plain(f"Bench · {self.model_name}", classes="page-title")
        yield Plot()
        yield OptionList(classes="rows", markup=False)
        yield WorkLines()
        with VerticalScroll(classes="detail", can_focus=False):
            yield Plain(_HOW, id="detail")
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        """List the runs that are kept."""
        self.query_one(OptionList).focus()
        await self.refill()

    async def refill(self) -> None:
        """List results and runs as they are now."""
        self.fetch(self.session.bench.history(), self._show_runs, group="history")

    def action_measure(self, suite: str) -> None:
        """Run a suite."""
        if not self.is_working:
            self._records = []
            self.query_one(Plot).clear_figures()
        self.start(f"measuring {suite} of {self.model_name}…", self.session.bench.run(suite))

    def action_compare(self) -> None:
        """Compare the marked run with the newest."""
        run = self._marked_run()
        if run is None or run.name == self._runs[0].name:
            self.notify_plain("mark an earlier run first; it is compared with the newest", is_bad=True)
            return
        self.fetch(
            self.session.bench.compare(run.name, self._runs[0].name), self._show_comparison, group="compare"
        )

    async def take_event(self, event: object) -> None:
        """Show a step, a figure or a result."""
        match event:
            case BenchFigure():
                self.query_one(Plot).add(event.series, event.figure, event.unit)
            case BenchRecord():
                self._records.append(event)
                self._list()
            case _:
                await super().take_event(event)

    async def _show_comparison(self, text: str) -> None:
        await self.app.push_screen(TextPage("Comparison", text))

    def _show_runs(self, runs: list[BenchRun]) -> None:
        self._runs = runs
        self.query_one(".page-title", Plain).show(
            f"Bench · {self.model_name} · {counted(len(runs), 'run')} kept"
        )
        self._list()

    def _list(self) -> None:
        listed = self.query_one(OptionList)
        mark = listed.highlighted or 0
        options = [Option(_record_line(one), id=f"record-{n}") for n, one in enumerate(self._records)]
        options += [Option(_run_line(one), id=f"run-{n}") for n, one in enumerate(self._runs)]
        listed.clear_options()
        listed.add_options(options)
        listed.highlighted = min(mark, len(options) - 1) if options else None
        if not options:
            self.query_one("#detail", Plain).show(_HOW)

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        kind, _, place = (event.option.id or "").partition("-")
        detail = self.query_one("#detail", Plain)
        if kind == "record":
            detail.show(_record_detail(self._records[int(place)]))
        elif place:
            detail.show(_run_detail(self._runs[int(place)]))

    def _marked_run(self) -> BenchRun | None:
        option = self.query_one(OptionList).highlighted_option
        kind, _, place = (option.id or "").partition("-") if option else ("", "", "")
        return self._runs[int(place)] if kind == "run" else None


def metric_text(metric: BenchMetric) -> str:
    """Write a metric as its median with the range of its samples."""
    low, high = min(metric.samples), max(metric.samples)
    spread = f" [{figure_text(low)}–{figure_text(high)}]" if len(metric.samples) > 1 else ""
    return f"{metric.name} {figure_text(median(metric.samples))} {metric.unit}{spread}"


def _record_line(record: BenchRecord) -> Content:
    metrics = "  ".join(metric_text(one) for one in record.metrics[:_SHOWN_METRICS] if one.samples)
    doubt = ("! ", "$text-warning") if record.doubts else ("✓ ", "$text-success")
    return Content.assemble(doubt, (f"{shown_line(record.test, 34)}  ", "bold"), shown_line(metrics, 200))


def _run_line(run: BenchRun) -> Content:
    return Content.assemble(
        ("! " if run.doubts else "  ", "$text-warning"),
        (f"{shown_cell(run.name, 40)} ", "$text-muted"),
        f"{run.records:>3} records  ",
        (shown_line(run.models, 50), "$text-muted"),
    )


def _record_detail(record: BenchRecord) -> str:
    metrics = [metric_text(one) for one in record.metrics if one.samples]
    return "\n".join([record.configuration, *metrics, *(f"doubt: {doubt}" for doubt in record.doubts)])


def _run_detail(run: BenchRun) -> str:
    return "\n".join([f"{run.name} · {run.suites} · {run.models}", *(f"doubt: {one}" for one in run.doubts)])
