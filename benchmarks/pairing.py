"""Lays two runs side by side: like with like, ratios with intervals, and "no difference shown" where that is so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from appliance.core.errors import InvalidRequestError
from benchmarks.like_runs import between_runs
from benchmarks.noise import is_noise
from benchmarks.records import Better, Metric, Record, Run, Scalar
from benchmarks.statistics import SEED, Interval, Statistic, bounds, resampled

Verdict = Literal["better", "worse", "differs", "no difference shown", "too few repetitions"]

MIN_SAMPLES = 5
_CONFIDENCE = 0.95

TIMED_UNITS = frozenset({"s", "tokens/s", "tokens/CPU s", "requests/s", "MB/s", "J/token"})
# States of the moment, or facts that follow from others.
_NOT_COMPARED = frozenset({"load_before", "available_memory_bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPair:
    """One metric of two records: the ratio of the values, second over first.

    `like_runs` counts kept runs of either side that measured the same: from three on, what they differ by is in the
    interval. `is_noisy` says that other programs or throttling stand among the doubts of a figure of time.
    """

    suite: str
    test: str
    configuration: Mapping[str, Scalar]
    metric: str
    unit: str
    better: Better
    first: float
    second: float
    samples: tuple[int, int]
    ratio: float
    interval: Interval | None
    verdict: Verdict
    like_runs: tuple[int, int]
    is_noisy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Everything two runs have in common, and what stands alone."""

    first: str
    second: str
    unlike_facts: tuple[str, ...]
    pairs: tuple[MetricPair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    doubts: tuple[str, ...]


def compare_runs(
    first: Run,
    second: Run,
    *,
    allow_unlike: bool = False,
    across: Sequence[str] = (),
    kept: Sequence[Run] = (),
) -> RunComparison:
    """Pair the records of two runs that have the same suite, test and configuration.

    Args:
        kept: every run there is; those like one of the two say how much runs differ by themselves.
        allow_unlike: compare although machine, system, libraries, build or models differ.
        across: names in the configuration that may differ, such as `model` or `threads`.

    Raises:
        InvalidRequestError: the fingerprints are unlike, or nothing can be paired.
    """
    unlike = unlike_facts(first, second, across=across)
    if unlike and not allow_unlike:
        raise InvalidRequestError(
            f"the runs are not alike: {', '.join(unlike)} differ",
            hint="--unlike compares them all the same, and says so in the result",
        )
    ours, theirs = _by_key(first.records, across), _by_key(second.records, across)
    sides = (_Side(first, kept), _Side(second, kept))
    pairs = [pair for key in ours if key in theirs for pair in _metric_pairs(ours[key], theirs[key], sides)]
    if not pairs:
        raise InvalidRequestError(
            "the two runs have no test in the same configuration",
            hint="--across NAME lets one setting differ, for instance --across model or --across threads",
        )
    return RunComparison(
        first=first.name,
        second=second.name,
        unlike_facts=tuple(unlike),
        pairs=tuple(pairs),
        only_first=tuple(_label(record) for key, record in ours.items() if key not in theirs),
        only_second=tuple(_label(record) for key, record in theirs.items() if key not in ours),
        doubts=(*_doubts(first), *_doubts(second)),
    )


def unlike_facts(first: Run, second: Run, *, across: Sequence[str] = ()) -> list[str]:
    """Names of the facts of the fingerprints that differ; of models, those of the same name with another digest."""
    one, other = first.records[-1].fingerprint.facts(), second.records[-1].fingerprint.facts()
    names = [name for name in {**one, **other} if name not in _NOT_COMPARED | {"models"}]
    unlike = [name for name in names if one.get(name) != other.get(name)]
    if "model" in across:
        return unlike
    digests, others = first.records[-1].fingerprint.models, second.records[-1].fingerprint.models
    changed = [model for model, digest in digests.items() if others.get(model, digest) != digest]
    return [*unlike, *(f"weights of {model}" for model in changed)]


def bootstrap_ratio(
    first: Sequence[float], second: Sequence[float], statistic: Statistic = "median"
) -> Interval:
    """Bound the ratio of medians, or of means, by resampling both samples, percentile method, with a fixed seed.

    Raises:
        ValueError: a sample is empty.
    """
    if not first or not second:
        raise ValueError("an empty sample has no ratio")
    ones, others = resampled(first, statistic, seed=SEED), resampled(second, statistic, seed=SEED + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = bounds(others / ones, _CONFIDENCE)
    return Interval(low=low, high=high, coverage=_CONFIDENCE)


def judge(ratio_interval: Interval, better: Better) -> Verdict:
    """Say what an interval shows: nothing where it holds 1."""
    if ratio_interval.low <= 1.0 <= ratio_interval.high:
        return "no difference shown"
    if better == "neither":
        return "differs"
    is_higher = ratio_interval.low > 1.0
    return "better" if is_higher == (better == "higher") else "worse"


class _Side:
    """One of the two runs, with the kept runs of the same installation."""

    def __init__(self, run: Run, kept: Sequence[Run]) -> None:
        others = [one for one in kept if one.records and one.name != run.name and not unlike_facts(run, one)]
        self._records = [record for one in others for record in one.records]

    def values(self, record: Record, metric: Metric) -> list[float]:
        """What this run and its like measured of one thing."""
        found = [one.metric(metric.name) for one in self._records if _measured(one) == _measured(record)]
        return [metric.value, *(one.value for one in found if one is not None)]


def _metric_pairs(one: Record, other: Record, sides: tuple[_Side, _Side]) -> list[MetricPair]:
    pairs = []
    for metric in one.metrics:
        counterpart = other.metric(metric.name)
        if counterpart is not None and counterpart.unit == metric.unit:
            like = sides[0].values(one, metric), sides[1].values(other, counterpart)
            is_noisy = metric.unit in TIMED_UNITS and is_noise([*one.doubts, *other.doubts])
            pairs.append(_pair(one, metric, counterpart, like, is_noisy=is_noisy))
    return pairs


def _pair(
    record: Record, metric: Metric, other: Metric, like: tuple[list[float], list[float]], *, is_noisy: bool
) -> MetricPair:
    first, second = metric.value, other.value
    ones, others = metric.independent, other.independent
    enough = min(len(ones), len(others)) >= MIN_SAMPLES and first != 0
    interval = bootstrap_ratio(ones, others, metric.statistic) if enough else None
    between = between_runs(*like)
    if interval is not None and between is not None:
        interval = between.widened(second / first, interval)
    return MetricPair(
        suite=record.suite,
        test=record.test,
        configuration=record.configuration,
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        first=first,
        second=second,
        samples=(len(ones), len(others)),
        ratio=second / first if first else 0.0,
        interval=interval,
        verdict=judge(interval, metric.better) if interval else _without_interval(metric, other),
        like_runs=(len(like[0]), len(like[1])),
        is_noisy=is_noisy,
    )


def _measured(record: Record) -> tuple[str, str, int, Mapping[str, Scalar]]:
    """What must be equal for two figures to be of the same thing."""
    return record.suite, record.test, record.seed, dict(record.configuration)


def _without_interval(metric: Metric, other: Metric) -> Verdict:
    """Deterministic figures, such as a perplexity, need no interval to be equal."""
    return "no difference shown" if set(metric.samples) == set(other.samples) else "too few repetitions"


def _by_key(records: Sequence[Record], across: Sequence[str]) -> dict[str, Record]:
    """Records by what must be equal; of the same measured again, the last stands.

    Raises:
        InvalidRequestError: what may differ also differs within the run, so that no pair is meant.
    """
    keyed: dict[str, Record] = {}
    for record in records:
        configuration = {name: value for name, value in record.configuration.items() if name not in across}
        key = json.dumps([record.suite, record.test, record.seed, configuration], sort_keys=True)
        if key in keyed and keyed[key].configuration != record.configuration:
            raise InvalidRequestError(
                f"the run {record.run} itself holds several values of {', '.join(across)}",
                hint="compare runs that each hold one value, or leave out --across",
            )
        keyed[key] = record
    return keyed


def _label(record: Record) -> str:
    sizes = {"n_prompt", "n_gen", "n_depth"}  # the test's name says them
    settings = ", ".join(
        f"{name} {value}" for name, value in record.configuration.items() if name not in sizes
    )
    return f"{record.suite} {record.test} ({settings})"


def _doubts(run: Run) -> list[str]:
    """What speaks against the figures of a run, with the tests it concerns."""
    tests: dict[str, list[str]] = {}
    for record in run.records:
        for doubt in record.doubts:
            tests.setdefault(doubt, []).append(record.test)
    return [
        f"{run.name}: {doubt}"
        if len(concerned) == len(run.records)
        else f"{run.name}, {', '.join(dict.fromkeys(concerned))}: {doubt}"
        for doubt, concerned in tests.items()
    ]
