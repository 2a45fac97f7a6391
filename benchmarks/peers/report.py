"""Writes a run as JSON with every round, and as a Markdown table with its verdicts and doubts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.metrics import FORMULAS
from benchmarks.noise import reasons_for_doubt
from benchmarks.peers.comparison import Comparison, compare
from benchmarks.peers.measurements import (
    CONVERSATION_TOKENS,
    SHORT_PROMPT_TOKENS,
    TOGETHER,
    TOGETHER_OUTPUT_TOKENS,
)
from benchmarks.peers.run import RunRecord
from benchmarks.statistics import Summary

_SIGNS = {"at_least": "≥", "at_most": "≤"}


def doubts_of(record: RunRecord, comparisons: Sequence[Comparison]) -> list[str]:
    """Why the run may not be trusted."""
    variations = [comparison.figure.variation for comparison in comparisons if comparison.row.bound != "none"]
    doubts = reasons_for_doubt(
        load_before=record.fingerprint.load_before,
        foreign_shares=record.foreign_shares,
        variations=variations,
    )
    if not record.is_complete:
        doubts.append("the run was not finished")
    return doubts


def to_json(record: RunRecord) -> str:
    """Everything: plan, fingerprint, every round, summaries."""
    comparisons = compare(record.pairs)
    document = {
        "plan": {**asdict(record.plan), "peer_openmp": dict(record.plan.peer_openmp)},
        "fingerprint": asdict(record.fingerprint),
        "peers": {
            "shares_libraries": record.programs.shares_libraries,
            "flags": record.programs.flags,
        },
        "is_complete": record.is_complete,
        "elapsed_s": record.elapsed_s,
        "doubts": doubts_of(record, comparisons),
        "failures": record.failures,
        "formulas": dict(FORMULAS),
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "rounds": [asdict(pair) for pair in record.pairs],
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def to_markdown(record: RunRecord) -> str:
    """The table, the machine, the method, and what speaks against the figures."""
    comparisons = compare(record.pairs)
    lines = [
        "| what | model | ours | peer | ratio (interval) | target | verdict |",
        "|---|---|---|---|---|---|---|",
        *(table_row(comparison) for comparison in comparisons),
        "",
        *_method(record),
        "",
        *(f"- Doubt: {doubt}" for doubt in doubts_of(record, comparisons)),
        *(f"- Not measured: {failure}" for failure in record.failures),
        *(line for comparison in comparisons if (line := _detail_line(comparison))),
    ]
    return "\n".join(lines).rstrip() + "\n"


def table_row(comparison: Comparison) -> str:
    """One comparison as a row of a Markdown table."""
    row = comparison.row
    peer = f"{_amount(comparison.theirs, row.unit)}, {row.against}" if comparison.theirs else "–"
    figure = "–"
    if comparison.theirs:
        interval = comparison.figure.interval
        figure = f"{comparison.figure.median:.3f} ({interval.low:.3f} – {interval.high:.3f})"
    target = "–" if row.bound == "none" else f"{_SIGNS[row.bound]} {_target(comparison)}"
    cells = [row.label, comparison.model, _amount(comparison.ours, row.unit), peer, figure, target]
    return f"| {' | '.join([*cells, comparison.verdict])} |"


def _target(comparison: Comparison) -> str:
    """A ratio, or an amount of our own where there is no peer."""
    row = comparison.row
    return f"{row.target:g}" if comparison.theirs else f"{row.target * 1000:g} ms"


def _amount(summary: Summary, unit: str) -> str:
    if unit == "s":
        return f"{summary.median * 1000:.4g} ms"
    return f"{summary.median:.4g} {unit}"


def _method(record: RunRecord) -> list[str]:
    facts, plan = record.fingerprint, record.plan
    counts = [comparison.figure.count for comparison in compare(record.pairs)]
    coverage = min((item.figure.interval.coverage for item in compare(record.pairs)), default=0.0)
    libraries = (
        "the engine's own libraries" if record.programs.shares_libraries else "libraries of their own build"
    )
    openmp = ", ".join(f"{name}={value}" for name, value in plan.peer_openmp.items()) or "OpenMP as it comes"
    sample = (
        f"Medians of {min(counts, default=0)} to {max(counts, default=0)} interleaved rounds, ratios of pairs of "
        f"one round; intervals of the median by order statistics, coverage at least {coverage:.1%}. "
        f"{plan.threads} threads on both sides."
    )
    machine = (
        f"{facts.processor}, {facts.usable_cores} cores, {facts.memory_bytes / 2**30:.0f} GiB, {facts.system}, "
        f"Python {facts.python}, llama-cpp-python {facts.libraries['llama-cpp-python']}, engine build "
        f"{facts.engine_build}, governor {facts.governor}, load before {facts.load_before:.2f}. "
        f"Peers: llama.cpp from the same source ({record.programs.flags}) on {libraries}, {openmp}."
    )
    workload = (
        f"Together: {TOGETHER} sequences, prompts of {SHORT_PROMPT_TOKENS} tokens, {TOGETHER_OUTPUT_TOKENS} "
        f"tokens each, greedy, llama-server -np {TOGETHER} driven by as many streaming clients with the same "
        f"tokens. Second turn and restart: a conversation of {CONVERSATION_TOKENS} tokens. "
        f"ttft: {FORMULAS['ttft']}."
    )
    return [sample, "", machine, "", workload]


def _detail_line(comparison: Comparison) -> str:
    if not comparison.details:
        return ""
    amounts = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in comparison.details.items())
    return f"- {comparison.row.label}: {amounts} (medians)"
