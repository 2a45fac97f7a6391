"""Records as aligned text: what differs between them, the median, its interval, the spread, and the doubts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmarks.like_runs import LEAST_RUNS
from benchmarks.pairing import MetricPair, RunComparison
from benchmarks.records import Metric, Record, Scalar

_NAMED_TESTS = 3
_WHOLE_FROM = 1000
_CLAIMS = frozenset({"better", "worse", "differs"})
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_HEAD = ("TEST", "SETTINGS", "METRIC", "VALUE", "INTERVAL", "P95", "SPREAD", "N")


def record_lines(records: Sequence[Record]) -> list[str]:
    """One row a metric; settings that all records share stand once, above."""
    if not records:
        return ["nothing was measured"]
    shared = shared_settings(records)
    rows: list[tuple[str, ...]] = [_HEAD]
    for record in records:
        settings = settings_text(record.configuration, without=shared)
        rows += [_metric_row(record, settings, metric) for metric in record.metrics]
    lines = [f"{records[0].suite}: {settings_text(shared)}".rstrip(": ")]
    lines += aligned(rows) if len(rows) > 1 else []
    lines += _fact_lines(records)
    return [*lines, *(f"doubt: {doubt}" for doubt in doubts_of(records))]


def doubts_of(records: Sequence[Record]) -> list[str]:
    """What speaks against figures, with the tests it concerns; of doubts that differ in a number one stands for all."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for record, name in zip(records, names_of(records), strict=True):
        for doubt in record.doubts:
            texts, tests = found.setdefault(_NUMBER.sub("#", doubt), ([], []))
            texts.append(doubt)
            tests.append(name)
    return [
        _of_tests(
            texts[0] if len(set(texts)) == 1 else f"for instance {_largest(texts)}", tests, len(records)
        )
        for texts, tests in found.values()
    ]


def _largest(texts: Sequence[str]) -> str:
    return max(texts, key=lambda text: [float(number) for number in _NUMBER.findall(text)])


def _of_tests(text: str, concerned: Sequence[str], all_tests: int) -> str:
    """A text with the tests it is about: by name, or by their number where they are many."""
    if len(concerned) == all_tests:
        return text
    if len(concerned) > _NAMED_TESTS:
        return f"{len(concerned)} of {all_tests} tests: {text}"
    return f"{', '.join(concerned)}: {text}"


def names_of(records: Sequence[Record]) -> list[str]:
    """A name for each record: its test, with the settings that set it apart where several tests have one name."""
    tests = [record.test for record in records]
    short = [_named(record, records, is_short=True) for record in records]
    return [
        test
        if tests.count(test) == 1
        else name
        if short.count(name) == 1
        else _named(record, records, is_short=False)
        for test, name, record in zip(tests, short, records, strict=True)
    ]


def _named(record: Record, records: Sequence[Record], *, is_short: bool) -> str:
    """A test with its settings; the short name leaves out what most tests of that name have."""
    same = [one.configuration for one in records if one.test == record.test]
    most = len(same) / 2 if is_short else len(same) - 1
    apart = {
        name: value
        for name, value in record.configuration.items()
        if sum(one.get(name, _Missing) == value for one in same) <= most
    }
    settings = settings_text(apart)
    return f"{record.test} ({settings})" if settings else record.test


def shared_settings(records: Sequence[Record] | Sequence[MetricPair]) -> dict[str, Scalar]:
    """The settings that have one value in all records."""
    first = records[0].configuration
    return {
        name: value
        for name, value in first.items()
        if all(record.configuration.get(name, _Missing) == value for record in records)
    }


class _Missing:
    """Equal to no setting."""


def settings_text(settings: Mapping[str, Scalar], without: Mapping[str, Scalar] | None = None) -> str:
    """Settings as `name value, name value`; sizes that the test's name says are left out."""
    said = {"n_prompt", "n_gen", "n_depth", *(without or {})}
    shown = {name: value for name, value in settings.items() if name not in said}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def amount(value: float, unit: str) -> str:
    """A value in the unit a reader expects: seconds as milliseconds, bytes as MiB."""
    if unit == "s":
        return f"{_digits(value * 1000)} ms"
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    if unit == "share":
        return f"{value:.1%}"
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    """Four digits that count, never as a power of ten."""
    return f"{value:.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.4g}"


def comparison_lines(comparison: RunComparison) -> list[str]:
    """Two runs side by side."""
    shared = shared_settings(comparison.pairs)
    rows: list[tuple[str, ...]] = [
        (
            "TEST",
            "SETTINGS",
            "METRIC",
            "FIRST",
            "SECOND",
            "RATIO",
            "INTERVAL 95 %",
            "N",
            "LIKE RUNS",
            "VERDICT",
        )
    ]
    rows += [_pair_row(pair, shared) for pair in comparison.pairs]
    lines = [f"first:  {comparison.first}", f"second: {comparison.second}", settings_text(shared)]
    lines += aligned(rows)
    if comparison.unlike_facts:
        lines.append(f"unlike machines or installations: {', '.join(comparison.unlike_facts)} differ")
    lines += [f"only in the first: {label}" for label in comparison.only_first]
    lines += [f"only in the second: {label}" for label in comparison.only_second]
    if any(max(pair.like_runs) < LEAST_RUNS for pair in comparison.pairs):
        lines.append(
            f"with fewer than {LEAST_RUNS} like runs kept, an interval knows the noise within two runs alone"
        )
    return [*lines, *(f"doubt: {doubt}" for doubt in comparison.doubts)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells of columns under each other; a column that is empty but for its head is left out."""
    used = [column for column in range(len(rows[0])) if any(row[column] for row in rows[1:])]
    widths = [max(len(row[column]) for row in rows) for column in used]
    return [
        "  ".join(f"{row[column]:<{width}}" for column, width in zip(used, widths, strict=True)).rstrip()
        for row in rows
    ]


def _metric_row(record: Record, settings: str, metric: Metric) -> tuple[str, ...]:
    summary = metric.summary
    is_single = len(metric.independent) == 1
    interval = record.interval_of(metric)
    return (
        record.test,
        settings,
        metric.name,
        amount(metric.value, metric.unit),
        ""
        if is_single or interval is None
        else f"{amount(interval.low, metric.unit)} – {amount(interval.high, metric.unit)} ({interval.coverage:.0%})",
        amount(metric.percentiles()["p95"], metric.unit) if metric.unit == "s" and not is_single else "",
        "" if is_single else f"{summary.variation:.1%}",
        f"{summary.count} of {len(metric.groups)}" if metric.groups else str(summary.count),
    )


def _pair_row(pair: MetricPair, shared: Mapping[str, Scalar]) -> tuple[str, ...]:
    interval = f"{pair.interval.low:.3f} – {pair.interval.high:.3f}" if pair.interval else ""
    return (
        pair.test,
        settings_text(pair.configuration, without=shared),
        pair.metric,
        amount(pair.first, pair.unit),
        amount(pair.second, pair.unit),
        f"{pair.ratio:.3f}",
        interval,
        f"{pair.samples[0]}/{pair.samples[1]}",
        str(min(pair.like_runs))
        if pair.like_runs[0] == pair.like_runs[1]
        else "/".join(map(str, pair.like_runs)),
        f"{pair.verdict}, in doubt" if pair.is_noisy and pair.verdict in _CLAIMS else pair.verdict,
    )


# Facts that a reader of the table needs; the rest stand in the record.
_SPOKEN = ("energy", "note", "failed", "prompts_off", "steady_state", "setting")


def _fact_lines(records: Sequence[Record]) -> list[str]:
    """Spoken facts; one that all records share stands once."""
    tests: dict[str, list[str]] = {}
    for record, test in zip(records, names_of(records), strict=True):
        for name, value in record.facts.items():
            if name in _SPOKEN and value not in ("", 0, None):
                tests.setdefault(f"{name.replace('_', ' ')}: {value}", []).append(test)
    return [_of_tests(fact, concerned, len(records)) for fact, concerned in tests.items()]
