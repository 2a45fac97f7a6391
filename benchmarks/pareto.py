"""Which models nothing beats in speed and quality at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.pairing import unlike_facts
from benchmarks.records import Record, Run, Scalar

# Parts of the score, each a share between 0 and 1. Perplexities of different vocabularies cannot be compared, so they
# are shown and never part of it.
SCORE_TESTS = ("exact match", "JSON validity", "needle retrieval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One model: its median tokens a second over the parts of the evaluation, and its mean score."""

    model: str
    tokens_per_s: float
    score: float
    parts: Mapping[str, float]
    is_on_frontier: bool = False


def candidates(records: Sequence[Record]) -> list[Candidate]:
    """Read speed and scores of each model out of records of the suite `quality`, and mark the frontier."""
    found = []
    for model, mine in _by_model(records).items():
        parts = _parts(mine)
        rates = [metric.value for record in mine if (metric := record.metric("rate"))]
        if rates and len(parts) == len(SCORE_TESTS):
            found.append(
                Candidate(model=model, tokens_per_s=median(rates), score=fmean(parts.values()), parts=parts)
            )
    return mark_frontier(found)


def comparable_runs(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of the suite `quality`, those together that have one machine, one installation and the same settings."""
    groups: list[list[Run]] = []
    for run in runs:
        if "quality" not in run.suites:
            continue
        fitting = [group for group in groups if all(_is_comparable(run, other) for other in group)]
        if fitting:
            fitting[0].append(run)
        else:
            groups.append([run])
    return groups


def _is_comparable(run: Run, other: Run) -> bool:
    mine, others = _settings_of_tests(run), _settings_of_tests(other)
    return not unlike_facts(run, other) and all(others.get(test, mine[test]) == mine[test] for test in mine)


def _settings_of_tests(run: Run) -> dict[str, dict[str, Scalar]]:
    """How each part was measured, whatever the model."""
    return {
        record.test: {name: value for name, value in record.configuration.items() if name != "model"}
        for record in run.records
        if record.suite == "quality"
    }


def unplaced(records: Sequence[Record]) -> dict[str, str]:
    """Models of the suite `quality` that have no score, and why."""
    missing = {}
    for model, mine in _by_model(records).items():
        tests = [test for test in SCORE_TESTS if test not in _parts(mine)]
        if tests and any(record.test in (*SCORE_TESTS, "perplexity") for record in mine):
            missing[model] = f"because {', '.join(tests)} {'is' if len(tests) == 1 else 'are'} not whole"
    return missing


def _by_model(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.suite == "quality" and "model" in record.configuration:
            found.setdefault(str(record.configuration["model"]), []).append(record)
    return found


def _parts(records: Sequence[Record]) -> dict[str, float]:
    return {record.test: share for record in records if (share := _share(record)) is not None}


def mark_frontier(found: Sequence[Candidate]) -> list[Candidate]:
    """Mark those that no other is at least as good as in both, and better in one."""
    return [
        Candidate(
            model=one.model,
            tokens_per_s=one.tokens_per_s,
            score=one.score,
            parts=one.parts,
            is_on_frontier=not any(_beats(other, one) for other in found),
        )
        for one in found
    ]


def _beats(other: Candidate, one: Candidate) -> bool:
    is_as_good = other.tokens_per_s >= one.tokens_per_s and other.score >= one.score
    return is_as_good and (other.tokens_per_s > one.tokens_per_s or other.score > one.score)


def _share(record: Record) -> float | None:
    metric = record.metric("share")
    is_whole = not any(doubt.startswith("partial") for doubt in record.doubts)
    return metric.value if metric is not None and is_whole and record.test in SCORE_TESTS else None
