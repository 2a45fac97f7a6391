"""The suite `sweep`: vary one setting at a time, put the promising ones together, and prove them against the usual."""

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
from benchmarks.pairing import judge
from benchmarks.recorder import Recorder
from benchmarks.records import Metric, Record
from benchmarks.speed_tests import FlashAttention, LoadChoice, SpeedTest
from benchmarks.statistics import Interval, median_interval, paired_ratios

Factor = Literal["threads", "batch_tokens", "ubatch_tokens", "flash_attention", "kv_type", "gpu_layers"]
# What a user can set; the others are measured so that the next release knows better sizes.
SETTINGS: dict[Factor, str] = {
    "threads": "threads",
    "flash_attention": "flash_attention",
    "kv_type": "kv_type",
    "gpu_layers": "gpu_layers",
}
_FIRST_STAGE_SHARE = 0.5
_PROMISING_ROUNDS = 3
# Six rounds that all go one way have a chance of 1 in 32 where nothing differs: the fewest that cover 95 %.
PROOF_ROUNDS = 6
_MOST_PROOF_ROUNDS = 15


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
    """How much shorter a request takes with a choice than with the usual one in the same round; above 1 is faster.

    The interval is of the median of the rounds' ratios, by order statistics, so what slowed a whole round cancels.
    """

    label: str
    ratios: tuple[float, ...]

    @property
    def rounds(self) -> int:
        """How often both were measured."""
        return len(self.ratios)

    @property
    def speedup(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def interval(self) -> Interval:
        """Where that median lies."""
        return median_interval(self.ratios)

    @property
    def is_promising(self) -> bool:
        """Whether it was faster often enough to be tried again."""
        return self.rounds >= _PROMISING_ROUNDS and self.interval.low > 1.0

    @property
    def is_proof(self) -> bool:
        """Whether it was faster in so many rounds that chance hardly does it."""
        return self.rounds >= PROOF_ROUNDS and self.interval.low > 1.0

    def line(self) -> str:
        """Say it."""
        if self.rounds < _PROMISING_ROUNDS:
            return f"{self.label}: {self.speedup:.2f} times as fast in {self.rounds} rounds, too few to tell"
        bounds = f"{self.interval.low:.2f} – {self.interval.high:.2f}, {self.interval.coverage:.0%}"
        words = {"better": "faster", "worse": "slower"}.get(judge(self.interval, "higher"))
        may = "may be " if self.rounds < PROOF_ROUNDS else ""
        found = f"{may}{words}" if words else "no difference shown"
        return f"{self.label}: {self.speedup:.2f} times as fast ({bounds} of {self.rounds} rounds), {found}"


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
    first = replace(
        _engine_plan(plan, [one.choice for one in tried], "search"),
        limit_s=plan.budget_s * _FIRST_STAGE_SHARE,
        least_rounds=_PROMISING_ROUNDS,
        last_limit_s=plan.budget_s,
    )
    missing = await measure_engine(first, recorder, energy)
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
    has_tried = any(found.rounds >= _PROMISING_ROUNDS for found in evidence.values())
    if best == plan.usual:
        text = _recommend(plan, recorder, plan.usual, None, began_s, has_tried=has_tried)
        return missing, [*lines, text]
    proof = await _prove(plan, best, recorder, energy, began_s, missing)
    if proof is not None:
        lines.append(proof.line())
    return missing, [*lines, _recommend(plan, recorder, best, proof, began_s, has_tried=has_tried)]


async def _prove(
    plan: SweepPlan,
    best: LoadChoice,
    recorder: Recorder,
    energy: EnergyMeter,
    began_s: float,
    missing: list[str],
) -> Evidence | None:
    """Measure a choice against the usual one in turn, with what is left of the time; nothing measured before counts."""
    before = len(recorder.records)
    left_s = plan.budget_s - (perf_counter() - began_s)
    if left_s <= 0:
        return None
    proof = replace(
        _engine_plan(plan, [best], "proof"), rounds=max(plan.rounds, _MOST_PROOF_ROUNDS), limit_s=left_s
    )
    missing += await measure_engine(proof, recorder, energy)
    again = recorder.records[before:]
    return _evidence(
        f"proof, {_differences(plan, best)}",
        _request_times(again, plan, plan.usual),
        _request_times(again, plan, best),
    )


def _differences(plan: SweepPlan, choice: LoadChoice) -> str:
    usual = plan.usual.configuration()
    return ", ".join(
        f"{name} {value}" for name, value in choice.configuration().items() if value != usual[name]
    )


def _engine_plan(plan: SweepPlan, choices: Sequence[LoadChoice], stage: str) -> EnginePlan:
    return EnginePlan(
        models=(plan.local,),
        choices=tuple(dict.fromkeys([plan.usual, *choices])),
        tests=plan.tests,
        rounds=plan.rounds,
        may_end_early=True,
        stage=stage,
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
    rounds = min(len(usual), len(other))
    if not rounds:
        return None
    return Evidence(label=label, ratios=tuple(paired_ratios(usual[:rounds], other[:rounds])))


def _together(plan: SweepPlan, evidence: dict[Variation, Evidence]) -> LoadChoice:
    """The fastest value of each factor that promises to be faster; lossy ones only when they are allowed."""
    best = plan.usual
    for factor in dict.fromkeys(one.factor for one in evidence):
        if factor == "kv_type" and not plan.may_change_answers:
            continue
        promising = {
            one: found for one, found in evidence.items() if one.factor == factor and found.is_promising
        }
        if promising:
            winner = max(promising, key=lambda one: promising[one].speedup)
            best = changed(best, factor, winner.value)
    return best


def _verdict(plan: SweepPlan, best: LoadChoice, proof: Evidence | None, *, has_tried: bool) -> str:
    """The words before the recommended settings."""
    if not has_tried:
        return "the time was too short to compare anything (give a larger --budget), so the usual: "
    if best == plan.usual:
        return "no difference shown, so the usual: "
    if proof is not None and proof.is_proof:
        return "recommended: "
    if proof is None or proof.rounds < PROOF_ROUNDS:
        return (
            f"{_differences(plan, best)} may be faster, but the time was too short to prove it "
            f"({proof.rounds if proof else 0} of {PROOF_ROUNDS} rounds; give a larger --budget), so the usual: "
        )
    return "no difference shown in the proof, so the usual: "


def _recommend(
    plan: SweepPlan,
    recorder: Recorder,
    best: LoadChoice,
    proof: Evidence | None,
    began_s: float,
    *,
    has_tried: bool,
) -> str:
    """Recommend what was proven, and write it down."""
    is_proven = proof is not None and proof.is_proof
    chosen = best if is_proven else plan.usual
    settings = chosen.configuration()
    stated = [f"{name} = {settings[factor]!r}".replace("'", '"') for factor, name in SETTINGS.items()]
    text = _verdict(plan, best, proof, has_tried=has_tried) + ", ".join(stated)
    if is_proven and (chosen.batch_tokens, chosen.ubatch_tokens) != (
        plan.usual.batch_tokens,
        plan.usual.ubatch_tokens,
    ):
        text += f" (batches of {chosen.batch_tokens}, micro-batches of {chosen.ubatch_tokens} are no settings yet)"
    recorder.record(
        "recommendation",
        configuration={"model": plan.local.id, **plan.usual.configuration()},
        metrics=[Metric(name="speedup", unit="", better="higher", samples=proof.ratios)] if proof else [],
        began_s=began_s,
        facts={"recommendation": text, "evidence": proof.line() if proof else "", "is_proven": is_proven},
    )
    return text
