"""Writes runs as Markdown, CSV, JSON, llama-bench's JSON, or one HTML page that loads nothing from anywhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.llama_bench_columns import to_llama_bench
from benchmarks.metrics import FORMULAS
from benchmarks.noise import NOISY_FOREIGN_SHARE, NOISY_VARIATION
from benchmarks.pairing import TIMED_UNITS
from benchmarks.pareto import candidates, comparable_runs
from benchmarks.records import PERCENTILES, Metric, Record, Run
from benchmarks.svg_plots import IntervalRow, Point, distribution_plot, interval_plot, scatter_plot
from benchmarks.tables import amount, doubts_of, names_of, settings_text, shared_settings

CAPTION = (
    "n is the number of samples, of as many requests where samples of one request depend on each other. "
    "Values are medians with their interval by order statistics (its coverage in brackets: few repetitions cover "
    "less); throughputs, shares and divergences are means, bounded by resampling or by "
    "Wilson's interval. Those of a sweep hold whenever it ended. Spread is the standard deviation over the mean."
)
_NO_DOUBT = (
    f"Noise: none was found. Looked at were the load before, the processor time of other programs (a doubt above "
    f"{NOISY_FOREIGN_SHARE:.0%}), rates that vary by more than {NOISY_VARIATION:.0%} between rounds, and throttling."
)
_DEFINED = "ttft, tpot, itl and e2el as vLLM defines them; one clock for all times."
_HEAD = ("test", "settings", "metric", "value", "interval", "p50", "p95", "p99", "spread", "n")
_DISTRIBUTED = frozenset({"ttft", "tpot", "itl", "burst_gap", "e2el"})
_MOST_SERIES = 6


def render(runs: Sequence[Run], form: str) -> str:
    """Write runs in one of the forms `markdown`, `csv`, `json`, `html` and `llama-bench`."""
    match form:
        case "csv":
            return to_csv(runs)
        case "json":
            return to_json(runs)
        case "html":
            return to_html(runs)
        case "llama-bench":
            return to_llama_bench([record for run in runs for record in run.records])
        case _:
            return to_markdown(runs)


def to_json(runs: Sequence[Run]) -> str:
    """Every record with its samples and what is computed from them."""
    document = {
        "formulas": dict(FORMULAS),
        "runs": [
            {
                "run": run.name,
                "unread_lines": run.unread_lines,
                "records": [
                    {**record.model_dump(mode="json"), "summaries": _summaries(record)}
                    for record in run.records
                ],
            }
            for run in runs
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_csv(runs: Sequence[Run]) -> str:
    """One row a metric; settings are one JSON cell."""
    text = io.StringIO()
    writer = csv.writer(text)
    percent_names = [f"p{percent}" for percent in PERCENTILES]
    writer.writerow(
        ["run", "suite", "test", "settings", "metric", "unit", "n", "value", "low", "high", "coverage", "min",
         "max", *percent_names, "spread", "doubts", "started_at"]
    )  # fmt: skip
    for run in runs:
        for record in run.records:
            for metric in record.metrics:
                summary, interval = metric.summary, record.interval_of(metric)
                bounds = [interval.low, interval.high, interval.coverage] if interval else [""] * 3
                writer.writerow(
                    [run.name, record.suite, record.test, json.dumps(dict(record.configuration)), metric.name,
                     metric.unit, summary.count, metric.value, *bounds, summary.low, summary.high,
                     *metric.percentiles().values(), summary.variation, "; ".join(record.doubts),
                     record.started_at.isoformat()]
                )  # fmt: skip
    return text.getvalue()


def to_markdown(runs: Sequence[Run]) -> str:
    """Tables, the machine, the doubts and the formulas."""
    lines: list[str] = []
    for run in runs:
        lines += [f"## {run.name}", "", machine_text(run.records[-1]), ""]
        if shared := settings_text(shared_settings(run.records)):
            lines += [f"All tests: {shared}.", ""]
        lines += ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
        lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in _rows(run)]
        lines += ["", *(f"- {remark}" for remark in _remarks(run)), ""]
    groups = comparable_runs(runs)
    for group in groups:
        if placed := _placed(_records_of(group)):
            title = "Speed and quality" + _of_runs(group, groups)
            lines += [f"## {title}", "", *(f"- {line}" for line in placed), ""]
    lines += [CAPTION, "", *(f"- `{name}` = {formula}" for name, formula in FORMULAS.items())]
    return "\n".join(lines) + "\n"


def to_html(runs: Sequence[Run]) -> str:
    """One page: no script, no font, no picture from elsewhere."""
    sections = "\n".join(_html_run(run) for run in runs) + _html_over_all(runs)
    formulas = "\n".join(
        f"<dt>{escape(name)}</dt><dd>{escape(formula)}</dd>" for name, formula in FORMULAS.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Benchmark report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Benchmark report</h1>\n"
        f"{sections}\n<h2>Formulas</h2>\n<p>{_DEFINED}</p>\n<dl>{formulas}</dl>\n"
        f"<p>{escape(CAPTION)}</p>\n</body>\n</html>\n"
    )


def machine_text(record: Record) -> str:
    """The machine and the installation in a sentence."""
    facts = record.fingerprint
    models = ", ".join(f"{name} ({digest[:12]})" for name, digest in facts.models.items())
    return (
        f"{facts.processor}, {facts.usable_cores} cores, {facts.memory_bytes / 2**30:.0f} GiB, {facts.system}, "
        f"governor {facts.governor}, load before {facts.load_before:.2f}. Python {facts.python}, llama-cpp-python "
        f"{facts.libraries.get('llama-cpp-python', 'unknown')}, engine build {facts.engine_build} "
        f"({facts.engine_flags}). Seed {record.seed}." + (f" Models: {models}." if models else "")
    )


def _rows(run: Run) -> Iterator[tuple[str, ...]]:
    shared = shared_settings(run.records)
    for record in run.records:
        for metric in record.metrics:
            summary, points = metric.summary, metric.percentiles()
            yield (
                record.test,
                settings_text(record.configuration, without=shared),
                metric.name,
                amount(metric.value, metric.unit),
                _interval_text(record, metric),
                *(amount(points[name], metric.unit) for name in ("p50", "p95", "p99")),
                f"{summary.variation:.1%}" if summary.count > 1 else "",
                f"{summary.count} of {len(metric.groups)}" if metric.groups else str(summary.count),
            )


def _interval_text(record: Record, metric: Metric) -> str:
    interval = record.interval_of(metric)
    if interval is None or len(metric.independent) == 1:
        return ""
    low, high = amount(interval.low, metric.unit), amount(interval.high, metric.unit)
    return f"{low} – {high} ({interval.coverage:.0%})"


def _remarks(run: Run) -> list[str]:
    remarks = list(dict.fromkeys(f"Doubt: {doubt}" for doubt in doubts_of(run.records)))
    energies = dict.fromkeys(
        str(record.facts["energy"]) for record in run.records if record.facts.get("energy")
    )
    remarks += [f"Energy: {source}." for source in energies]
    remarks += [
        f"{name}: {record.facts[fact]}"
        for record, name in zip(run.records, names_of(run.records), strict=True)
        for fact in ("evidence", "recommendation", "note")
        if record.facts.get(fact)
    ]
    remarks += [f"{warning}." for warning in run.warnings()]
    has_times = any(metric.unit in TIMED_UNITS for record in run.records for metric in record.metrics)
    if has_times and not any(record.doubts for record in run.records):
        remarks.insert(0, _NO_DOUBT)
    return remarks


def _html_run(run: Run) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEAD)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in _rows(run)
    )
    shared = settings_text(shared_settings(run.records))
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in _remarks(run))
    return (
        f"<section>\n<h2>{escape(run.name)}</h2>\n<p>{escape(machine_text(run.records[-1]))}</p>\n"
        f"<p>{escape(shared)}</p>\n{''.join(_figures(run))}"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>\n'
        f"<ul>{remarks}</ul>\n</section>"
    )


def _figures(run: Run) -> Iterator[str]:
    by_metric: dict[tuple[str, str], list[tuple[str, Record]]] = {}
    for record, label in zip(run.records, names_of(run.records), strict=True):
        for metric in record.metrics:
            by_metric.setdefault((metric.name, metric.unit), []).append((label, record))
    for (name, unit), labelled in by_metric.items():
        yield _figure_of(name, unit, labelled)
    yield _pareto_figure(run.records)


def _pareto_figure(records: Sequence[Record]) -> str:
    points = [
        Point(label=one.model, x=one.tokens_per_s, y=one.score, is_on_frontier=one.is_on_frontier)
        for one in candidates(records)
    ]
    if not points:
        return ""
    caption = "Speed and quality; the line joins what nothing beats"
    return _framed(caption, scatter_plot(points, "tokens/s", "score"))


def _html_over_all(runs: Sequence[Run]) -> str:
    """Models that were evaluated in several runs, those of one machine and one way of asking in one plot."""
    groups = comparable_runs(runs)
    return "".join(
        f"<section>\n<h2>Speed and quality over all runs{escape(_of_runs(group, groups))}</h2>\n{figure}</section>"
        for group in groups
        if len(group) > 1 and (figure := _pareto_figure(_records_of(group)))
    )


def _of_runs(group: Sequence[Run], groups: Sequence[Sequence[Run]]) -> str:
    """Which runs are meant, where not all can be put together."""
    if len(groups) == 1:
        return ""
    return f" of one machine and the same settings: {', '.join(run.name for run in group)}"


def _records_of(runs: Sequence[Run]) -> list[Record]:
    return [record for run in runs for record in run.records]


def _placed(records: Sequence[Record]) -> list[str]:
    """Models by speed with their scores, those that nothing beats marked."""
    found = sorted(candidates(records), key=lambda one: -one.tokens_per_s)
    return [
        f"{one.model}: {amount(one.tokens_per_s, 'tokens/s')}, score {one.score:.0%}"
        f"{', nothing beats it' if one.is_on_frontier else ''}"
        for one in found
    ]


def _figure_of(name: str, unit: str, labelled: Sequence[tuple[str, Record]]) -> str:
    factor, shown_unit = (
        (1000.0, "ms") if unit == "s" else (1 / 2**20, "MiB") if unit == "bytes" else (1.0, unit)
    )
    series = [
        (label, tuple(value * factor for value in metric.samples))
        for label, record in labelled
        if (metric := record.metric(name)) is not None
    ]
    if name in _DISTRIBUTED and any(len(values) > 1 for _, values in series):
        groups = [series[first : first + _MOST_SERIES] for first in range(0, len(series), _MOST_SERIES)]
        numbers = [
            f", {number} of {len(groups)}" if len(groups) > 1 else "" for number in range(1, len(groups) + 1)
        ]
        return "".join(
            _framed(f"{name}: share of samples at or below{number}", distribution_plot(group, shown_unit))
            for number, group in zip(numbers, groups, strict=True)
        )
    rows = [
        _row_of(label, record, metric, factor)
        for label, record in labelled
        if (metric := record.metric(name)) is not None
    ]
    return _framed(name, interval_plot(rows, shown_unit))


def _row_of(label: str, record: Record, metric: Metric, factor: float) -> IntervalRow:
    """One line of a plot; what nothing bounds has no bar."""
    interval = record.interval_of(metric)
    low, high = (interval.low, interval.high) if interval else (metric.value, metric.value)
    return IntervalRow(
        label=label,
        median=metric.value * factor,
        low=low * factor,
        high=high * factor,
        samples=tuple(value * factor for value in metric.samples),
    )


def _framed(caption: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>\n"


def _summaries(record: Record) -> dict[str, object]:
    return {
        metric.name: {
            "count": metric.summary.count,
            "statistic": metric.statistic,
            "value": metric.value,
            **_bounds(record, metric),
            "spread": metric.summary.variation,
            **metric.percentiles(),
        }
        for metric in record.metrics
    }


def _bounds(record: Record, metric: Metric) -> dict[str, object]:
    interval = record.interval_of(metric)
    if interval is None:
        return {"interval": None, "coverage": None}
    return {"interval": [interval.low, interval.high], "coverage": interval.coverage}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #d5dae0; --main: #0b62c4; --off: #8a929c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --paper: #14171b; --faint: #39414b; --main: #6db1ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--faint); white-space: nowrap; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.grid { stroke: var(--faint); } .tick { stroke: var(--off); stroke-opacity: .5; }
.bar { stroke: var(--main); stroke-width: 4; stroke-opacity: .5; }
.dot { fill: var(--main); } .off { fill: var(--off); }
.line { fill: none; stroke-width: 2; } .s0 { stroke: #0b62c4; } .s1 { stroke: #c4560b; } .s2 { stroke: #1a8a4a; }
.s3 { stroke: #8a3fb5; } .s4 { stroke: #b8860b; } .s5 { stroke: #5d6b7a; } dt { font-family: monospace; }
"""
