"""Writes a run as the section of a README: date, machine, a table beside llama.cpp's programs, structured output."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import date

from benchmarks.fingerprint import Fingerprint
from benchmarks.peers.comparison import Comparison, compare
from benchmarks.peers.report import doubts_of, table_row
from benchmarks.peers.run import RunRecord
from benchmarks.statistics import paired_ratios
from benchmarks.structured import STYLES, Round
from benchmarks.structured_cases import Style
from benchmarks.structured_together import Together

_STYLE_NAMES: dict[Style, str] = {
    "function call": "function calls",
    "extraction": "fields of a record written as `key: value`",
}


def to_readme(
    record: RunRecord, rounds: Sequence[Round], together: Together | None, *, cases: int, on: date
) -> str:
    """The rows that have a target, and what speaks against them."""
    comparisons = [one for one in compare(record.pairs) if one.row.bound != "none"]
    lines = [
        _headline(record, comparisons, on),
        "",
        "| what | model | ours | peer | ratio (interval) | target | verdict |",
        "|---|---|---|---|---|---|---|",
        *(table_row(one) for one in comparisons),
        *_remarks(record),
    ]
    if rounds:
        lines += ["", *_structured(rounds, together, cases, record.plan.threads)]
    return "\n".join(lines) + "\n"


def _headline(record: RunRecord, comparisons: Sequence[Comparison], on: date) -> str:
    plan = record.plan
    return (
        f"Newest run: {on.isoformat()}, {_machine(record.fingerprint)}, {plan.threads} threads on both sides; medians "
        f"of ratios of pairs with intervals that cover {_coverage(comparisons):.0%}, {plan.rounds} rounds."
    )


def _machine(facts: Fingerprint) -> str:
    return (
        f"{facts.processor}, {facts.usable_cores} cores, {facts.memory_bytes / 2**30:.0f} GiB, {facts.system}"
    )


def _coverage(comparisons: Sequence[Comparison]) -> float:
    return min((one.figure.interval.coverage for one in comparisons), default=0.0)


def _remarks(record: RunRecord) -> list[str]:
    doubts = [f"- Doubt: {doubt}" for doubt in doubts_of(record, compare(record.pairs))]
    remarks = doubts + [f"- Not measured: {failure}" for failure in record.failures]
    return ["", *remarks] if remarks else []


def _structured(rounds: Sequence[Round], together: Together | None, cases: int, threads: int) -> list[str]:
    count = max(sum(one.style == style for one in rounds) for style in STYLES)
    valid, answers = sum(one.valid for one in rounds), cases * len(rounds)
    headline = (
        f"Structured output, the same day and machine, {threads} threads, prompts in the KV cache, greedy, medians of "
        f"{count} interleaved rounds of {cases} schemas each; {valid} of {answers} answers were valid."
    )
    return [
        headline,
        "",
        "| what | constrained | free, same prompts | llama-server, same schemas | passes per token |",
        "|---|---|---|---|---|",
        *(
            _structured_row(style, mine)
            for style in STYLES
            if (mine := [one for one in rounds if one.style == style])
        ),
        *(["", f"{together.line[0].upper()}{together.line[1:]}."] if together else []),
    ]


def _structured_row(style: Style, rounds: Sequence[Round]) -> str:
    held = [one.constrained_tokens / one.constrained_s for one in rounds]
    free = [one.free_tokens / one.free_s for one in rounds]
    passes = sum(one.forward_passes for one in rounds) / sum(one.constrained_tokens for one in rounds)
    cells = [
        _STYLE_NAMES[style],
        f"{statistics.median(held):.1f} tokens/s",
        _beside(held, free),
        _beside(held, [one.server_tokens / one.server_s for one in rounds if one.server_s]),
        f"{passes:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _beside(held: Sequence[float], other: Sequence[float]) -> str:
    """The other's rate, and how many times that the constrained one has."""
    if len(other) != len(held):
        return "–"
    return f"{statistics.median(other):.1f} ({statistics.median(paired_ratios(held, other)):.2f} ×)"
