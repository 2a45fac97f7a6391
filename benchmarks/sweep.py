"""The suite `sweep`: vary one way of loading at a time, put the winners together, and prove them against the usual."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal

from appliance.catalog.catalog import LocalModel
from appliance.engine.params import KvType
from benchmarks.energy import EnergyMeter
from benchmarks.engine_speed import EnginePlan, measure_engine
from benchmarks.pairing import MIN_SAMPLES, bootstrap_ratio, judge
from benchmarks.recorder import Recorder
from benchmarks.records import Metric, Record
from benchmarks.speed_tests import FlashAttention, LoadChoice, SpeedTest
from benchmarks.statistics import Interval

Factor = Literal["threads", "batch_tokens", "ubatch_tokens", "flash_attention", "kv_type", "gpu_layers"]
# What a user can set; the others are measured so that the next release knows better sizes.
SETTINGS: dict[Factor, str] = {
    "threads": "threads",
    "flash_attention": "flash_attention",
    "kv_type": "kv_type",
    "gpu_layers": "gpu_layers",
}
_FIRST_STAGE_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What to vary around the usual choice, and the request whose time is to be short."""

    local: LocalModel
    usual: LoadChoice
    threads: tuple[int, ...]
    batches: tuple[int, ...]
    ubatches: tuple[int, ...]
    flash: tuple[FlashAttention, ...]
    kv_types: tuple[KvType, ...]
    gpu_layers: tuple[int, ...]
    prompt_tokens: int
    output_tokens: int
    depth_tokens: int
    rounds: int
    budget_s: float
    may_change_answers: bool

    @property
    def tests(self) -> tuple[SpeedTest, SpeedTest]:
        """Prefill and decode of the request."""
        return (
            SpeedTest(kind="pp", tokens=self.prompt_tokens, depth_tokens=self.depth_tokens),
            SpeedTest(kind="tg", tokens=self.output_tokens, depth_tokens=self.depth_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One factor with another value than usual."""

    factor: Factor
    value: str | int
    choice: LoadChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How much shorter a request takes with a choice than with the usual one; above 1 is faster."""

    label: str
    speedup: float
    interval: Interval | None

    @property
    def is_shown(self) -> bool:
        """Whether the interval lies above 1."""
        return self.interval is not None and self.interval.low > 1.0

    def line(self) -> str:
        """Say it."""
        if self.interval is None:
            return f"{self.label}: {self.speedup:.2f} times as fast, too few repetitions to tell"
        bounds = f"{self.interval.low:.2f} – {self.interval.high:.2f}"
        words = {"better": "faster", "worse": "slower"}.get(
            judge(self.interval, "higher"), "no difference shown"
        )
        return f"{self.label}: {self.speedup:.2f} times as fast ({bounds}), {words}"


def variations(plan: SweepPlan) -> list[Variation]:
    """Every factor's other values, one at a time."""
    values: dict[Factor, Sequence[str | int]] = {
        "threads": plan.threads,
        "batch_tokens": plan.batches,
        "ubatch_tokens": plan.ubatches,
        "flash_attention": plan.flash,
        "kv_type": plan.kv_types,
        "gpu_layers": plan.gpu_layers,
    }
    return [
        Variation(factor=factor, value=value, choice=changed(plan.usual, factor, value))
        for factor, found in values.items()
        for value in dict.fromkeys(found)
        if changed(plan.usual, factor, value) != plan.usual
    ]


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
        size = min(int(value), choice.batch_tokens)
        return replace(choice, ubatch_tokens=size, prefill_chunk_tokens=size)
    return replace(choice, **{factor: value})  # type: ignore[arg-type]  # each factor has values of its own type


async def measure_sweep(
    plan: SweepPlan, recorder: Recorder, energy: EnergyMeter
) -> tuple[list[str], list[str]]:
    """Run the sweep. Returns what could not be measured, and the evidence with the recommendation in lines."""
    began_s = perf_counter()
    tried = variations(plan)
    missing = await measure_engine(
        _engine_plan(plan, [one.choice for one in tried], plan.budget_s * _FIRST_STAGE_SHARE),
        recorder,
        energy,
    )
    usual = _request_times(recorder.records, plan, plan.usual)
    evidence = {
        one: found
        for one in tried
        if (
            found := _evidence(
                f"{one.factor} {one.value}", usual, _request_times(recorder.records, plan, one.choice)
            )
        )
    }
    lines = [found.line() for found in evidence.values()]
    best = _together(plan, evidence)
    if best == plan.usual:
        return missing, [*lines, _recommend(plan, recorder, plan.usual, None, began_s)]
    before = len(recorder.records)
    left_s = max(plan.budget_s - (perf_counter() - began_s), 0.0)
    missing += await measure_engine(_engine_plan(plan, [best], left_s), recorder, energy)
    again = recorder.records[before:]
    proof = _evidence(
        "all of them together", _request_times(again, plan, plan.usual), _request_times(again, plan, best)
    )
    if proof is not None:
        lines.append(proof.line())
    return missing, [*lines, _recommend(plan, recorder, best, proof, began_s)]


def _engine_plan(plan: SweepPlan, choices: Sequence[LoadChoice], limit_s: float) -> EnginePlan:
    return EnginePlan(
        models=(plan.local,),
        choices=tuple(dict.fromkeys([plan.usual, *choices])),
        tests=plan.tests,
        rounds=plan.rounds,
        limit_s=limit_s,
    )


def _request_times(records: Sequence[Record], plan: SweepPlan, choice: LoadChoice) -> list[float]:
    """Seconds of the request in each round: prompt tokens over their rate plus output tokens over theirs."""
    rates = []
    for test in plan.tests:
        record = next(
            (
                record
                for record in records
                if record.test == test.label
                and all(
                    record.configuration.get(name) == value for name, value in choice.configuration().items()
                )
            ),
            None,
        )
        metric = record.metric("rate") if record else None
        if metric is None:
            return []
        rates.append(metric.samples)
    return [
        plan.prompt_tokens / prompt + plan.output_tokens / output
        for prompt, output in zip(*rates, strict=False)
    ]


def _evidence(label: str, usual: Sequence[float], other: Sequence[float]) -> Evidence | None:
    if not usual or not other:
        return None
    enough = min(len(usual), len(other)) >= MIN_SAMPLES
    return Evidence(
        label=label,
        speedup=statistics.median(usual) / statistics.median(other),
        interval=bootstrap_ratio(other, usual) if enough else None,
    )


def _together(plan: SweepPlan, evidence: dict[Variation, Evidence]) -> LoadChoice:
    """The fastest value of each factor that was shown to be faster; lossy ones only when they are allowed."""
    best = plan.usual
    for factor in dict.fromkeys(one.factor for one in evidence):
        if factor == "kv_type" and not plan.may_change_answers:
            continue
        shown = {one: found for one, found in evidence.items() if one.factor == factor and found.is_shown}
        if shown:
            winner = max(shown, key=lambda one: shown[one].speedup)
            best = changed(best, factor, winner.value)
    return best


def _recommend(
    plan: SweepPlan, recorder: Recorder, best: LoadChoice, proof: Evidence | None, began_s: float
) -> str:
    """Recommend what was proven, and write it down."""
    is_proven = proof is not None and proof.is_shown
    chosen = best if is_proven else plan.usual
    settings = chosen.configuration()
    stated = [f"{name} = {settings[factor]!r}".replace("'", '"') for factor, name in SETTINGS.items()]
    text = ("recommended: " if is_proven else "no better settings were shown; the usual: ") + ", ".join(
        stated
    )
    if is_proven and (chosen.batch_tokens, chosen.ubatch_tokens) != (
        plan.usual.batch_tokens,
        plan.usual.ubatch_tokens,
    ):
        text += f" (batches of {chosen.batch_tokens}, micro-batches of {chosen.ubatch_tokens} are no settings yet)"
    recorder.record(
        "recommendation",
        configuration={"model": plan.local.id},
        metrics=[Metric(name="speedup", unit="", better="higher", samples=(proof.speedup,))] if proof else [],
        began_s=began_s,
        facts={"recommendation": text, "evidence": proof.line() if proof else "", "is_proven": is_proven},
    )
    return text
