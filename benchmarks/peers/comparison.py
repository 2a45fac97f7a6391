"""The rows of the side-by-side table: what is compared, the target, and what the rounds say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.statistics import Summary, summarise

Bound = Literal["at_least", "at_most", "none"]
Verdict = Literal["met", "missed", "too few rounds", "for information"]

MIN_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison. `target` bounds the median of the paired ratios, or of our figure where there is no peer."""

    key: str
    label: str
    against: str
    unit: str
    target: float = 0.0
    bound: Bound = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What one round measured for a row; `theirs` is None where our figure stands alone."""

    row: str
    model: str
    round_number: int
    ours: float
    theirs: float | None
    foreign_share: float = 0.0
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def figure(self) -> float:
        """What the target bounds."""
        return self.ours if self.theirs is None else self.ours / self.theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A row with its rounds summed up."""

    row: Row
    model: str
    ours: Summary
    theirs: Summary | None
    figure: Summary
    details: Mapping[str, float]
    verdict: Verdict


ROWS = (
    Row(
        key="decode",
        label="decode of one sequence, worker's clock",
        against="llama-bench tg128 @ d64",
        unit="tokens/s",
        target=0.97,
        bound="at_least",
    ),
    Row(
        key="decode_caller",
        label="decode of one sequence, caller's clock",
        against="llama-bench tg128 @ d64",
        unit="tokens/s",
    ),
    Row(
        key="decode_cpu",
        label="decode of one sequence, CPU time of worker",
        against="llama-bench tg128 @ d64, CPU time",
        unit="tokens/CPU s",
    ),
    Row(
        key="decode_empty",
        label="decode behind 64 tokens, worker's clock",
        against="llama-bench tg128, empty context",
        unit="tokens/s",
    ),
    Row(
        key="decode_kept",
        label="decode of one sequence while a conversation is kept",
        against="llama-bench tg128 @ d64",
        unit="tokens/s",
    ),
    Row(
        key="prefill",
        label="prefill, worker's clock",
        against="llama-bench pp512",
        unit="tokens/s",
        target=0.97,
        bound="at_least",
    ),
    Row(key="prefill_caller", label="prefill, caller's clock", against="llama-bench pp512", unit="tokens/s"),
    Row(
        key="prefill_cpu",
        label="prefill, CPU time of worker",
        against="llama-bench pp512, CPU time",
        unit="tokens/CPU s",
    ),
    Row(
        key="together",
        label="sequences together, output throughput",
        against="llama-server",
        unit="tokens/s",
        target=1.0,
        bound="at_least",
    ),
    Row(
        key="second_turn",
        label="second turn, ttft",
        against="llama-server, cache warm",
        unit="s",
        target=1.1,
        bound="at_most",
    ),
    Row(
        key="restart",
        label="ttft after a restart, prefix saved",
        against="the same prompt cold",
        unit="s",
        target=0.25,
        bound="at_most",
    ),
    Row(
        key="delivery",
        label="first token from worker to caller",
        against="",
        unit="s",
        target=0.002,
        bound="at_most",
    ),
)


def compare(pairs: Sequence[Pair]) -> list[Comparison]:
    """Sum up each row of each model that was measured, in the order of the table."""
    models = list(dict.fromkeys(pair.model for pair in pairs))
    comparisons = []
    for row in ROWS:
        for model in models:
            chosen = [pair for pair in pairs if pair.row == row.key and pair.model == model]
            if chosen:
                comparisons.append(_comparison(row, model, chosen))
    return comparisons


def _comparison(row: Row, model: str, pairs: Sequence[Pair]) -> Comparison:
    theirs = [pair.theirs for pair in pairs if pair.theirs is not None]
    figure = summarise([pair.figure for pair in pairs])
    names = sorted({name for pair in pairs for name in pair.details})
    details = {
        name: summarise([pair.details[name] for pair in pairs if name in pair.details]).median
        for name in names
    }
    return Comparison(
        row=row,
        model=model,
        ours=summarise([pair.ours for pair in pairs]),
        theirs=summarise(theirs) if theirs else None,
        figure=figure,
        details=details,
        verdict=judge(row, figure),
    )


def judge(row: Row, figure: Summary) -> Verdict:
    """Hold the median against the target."""
    if row.bound == "none":
        return "for information"
    if figure.count < MIN_ROUNDS:
        return "too few rounds"
    is_met = figure.median >= row.target if row.bound == "at_least" else figure.median <= row.target
    return "met" if is_met else "missed"
