"""The lines of a measurement as events."""

from __future__ import annotations

from tui.in_process.bench import _events
from tui.rows import BenchFigure, BenchRecord, WorkLine, WorkProgress


def test_a_step_with_a_figure_is_progress_and_a_point_of_the_plot() -> None:
    told = {"kind": "progress", "done": 2, "total": 5, "text": "ttft", "figure": 0.5, "unit": "s"}

    assert _events(told) == [
        WorkProgress(what="ttft", done=2, total=5, unit="steps"),
        BenchFigure(series="ttft", figure=0.5, unit="s"),
    ]


def test_a_record_keeps_every_sample_and_what_speaks_against_it() -> None:
    told = {
        "kind": "record",
        "suite": "latency",
        "test": "warm",
        "configuration": {"model": "m", "threads": None},
        "metrics": [{"name": "ttft", "unit": "s", "samples": [1, 2.5]}],
        "doubts": ["busy"],
    }

    (record,) = _events(told)

    assert isinstance(record, BenchRecord)
    assert (record.test, record.configuration, record.doubts) == ("latency warm", "model=m", ("busy",))
    assert record.metrics[0].samples == (1.0, 2.5)


def test_the_end_names_the_run_and_lines_of_other_kinds_are_nothing() -> None:
    assert _events({"kind": "finished", "run": "r1", "notes": []}) == [WorkLine(text="run r1 is kept")]
    assert _events({"kind": "unknown"}) == []
