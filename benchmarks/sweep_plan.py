"""What a sweep varies around the usual settings, one at a time, and what of it cannot make a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from appliance.catalog.catalog import LocalModel
from benchmarks.records import Scalar
from benchmarks.speed_tests import LoadChoice, SpeedTest

Factor = Literal[
    "threads", "batch_tokens", "ubatch_tokens", "flash_attention", "kv_type", "context_window", "gpu_layers"
]
_ALL_CORES_UP_TO = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSize:
    """The request whose time is to be short."""

    prompt_tokens: int
    output_tokens: int
    depth_tokens: int = 0

    @property
    def tests(self) -> tuple[SpeedTest, SpeedTest]:
        """Its prefill and its decode."""
        return (
            SpeedTest(kind="pp", tokens=self.prompt_tokens, depth_tokens=self.depth_tokens),
            SpeedTest(kind="tg", tokens=self.output_tokens, depth_tokens=self.depth_tokens),
        )

    @property
    def context_tokens(self) -> int:
        """Most tokens in the KV cache while it is measured."""
        return max(test.context_tokens for test in self.tests)

    def cost_s(self, prompt_rate: float, output_rate: float) -> float:
        """Seconds that it takes to measure it at these rates; what lies before is filled for each of the two tests."""
        prompt_tokens = self.prompt_tokens + 2 * self.depth_tokens
        return prompt_tokens / prompt_rate + self.output_tokens / output_rate


# The request of a sweep is the largest of these that leaves time for enough rounds.
SIZES = tuple(RequestSize(prompt_tokens=4 * tokens, output_tokens=tokens) for tokens in (128, 64, 32, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What to vary around the usual choice. A size of None is chosen by what fits into the budget.

    `parallel` is how many sequences the appliance serves at once, for the prediction of memory.
    """

    local: LocalModel
    usual: LoadChoice
    values: Mapping[Factor, Sequence[str | int]]
    size: RequestSize | None
    depth_tokens: int
    most_rounds: int
    budget_s: float
    parallel: int
    may_change_answers: bool

    @property
    def largest(self) -> RequestSize:
        """The largest request that may be measured, which every engine has room for."""
        return self.size or replace(SIZES[0], depth_tokens=self.depth_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One factor with another value than usual; `skipped` says why it is not measured."""

    factor: Factor
    value: str | int
    choice: LoadChoice
    skipped: str = ""

    @property
    def name(self) -> str:
        """`threads 1`."""
        return f"{self.factor} {self.value}"


def variations(plan: SweepPlan, size: RequestSize) -> list[Variation]:
    """Every factor's other values, one at a time."""
    found = []
    for factor, values in plan.values.items():
        for value in dict.fromkeys(_loaded(plan, factor, value) for value in values):
            choice = changed(plan.usual, factor, value)
            if choice != plan.usual:
                skipped = _why_not(plan.usual, choice, size)
                found.append(Variation(factor=factor, value=value, choice=choice, skipped=skipped))
    return found


def _loaded(plan: SweepPlan, factor: Factor, value: str | int) -> str | int:
    """The value as it is measured: a context too small for the request is loaded as large as that needs."""
    if factor != "context_window":
        return value
    return replace(plan.usual, context_tokens=int(value)).window(plan.local, plan.largest.context_tokens)


def changed(choice: LoadChoice, factor: Factor, value: str | int) -> LoadChoice:
    """The choice with one factor set; batches keep what must not be larger than they are."""
    if factor == "batch_tokens":
        size = int(value)
        return replace(
            choice,
            batch_tokens=size,
            ubatch_tokens=min(choice.ubatch_tokens, size),
            prefill_chunk_tokens=min(choice.prefill_chunk_tokens, size),
        )
    if factor == "ubatch_tokens":
        size = int(value)
        batch = max(choice.batch_tokens, size)
        return replace(choice, batch_tokens=batch, ubatch_tokens=size, prefill_chunk_tokens=size)
    if factor == "context_window":
        return replace(choice, context_tokens=int(value))
    return replace(choice, **{factor: value})  # type: ignore[arg-type]  # each factor has values of its own type


def settings_of(choice: LoadChoice) -> dict[str, Scalar]:
    """A choice by the names of the settings."""
    found = dict(choice.configuration())
    return {"context_window" if name == "context_tokens" else name: value for name, value in found.items()}


def thread_counts(cores: int, usual: int) -> tuple[int, ...]:
    """Counts worth a try: all of a few cores; of many those around the usual, half, and all."""
    if cores <= _ALL_CORES_UP_TO:
        return tuple(range(1, cores + 1))
    return tuple(sorted({cores // 2, max(1, usual - 1), usual, cores}))


def _why_not(usual: LoadChoice, choice: LoadChoice, size: RequestSize) -> str:
    """Batches of other sizes process a prompt alike where its pieces have the same length."""
    same = replace(
        choice,
        batch_tokens=usual.batch_tokens,
        ubatch_tokens=usual.ubatch_tokens,
        prefill_chunk_tokens=usual.prefill_chunk_tokens,
    )
    piece = _piece_tokens(choice, size)
    if same != usual or piece != _piece_tokens(usual, size):
        return ""
    return f"a prompt of {size.prompt_tokens} tokens is processed in pieces of {piece} either way"


def _piece_tokens(choice: LoadChoice, size: RequestSize) -> int:
    return min(choice.ubatch_tokens, choice.prefill_chunk_tokens, choice.batch_tokens, size.prompt_tokens)
