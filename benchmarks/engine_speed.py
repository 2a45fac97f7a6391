"""The suite `engine`: prompt processing and generation of every way of loading, measured in turn, round by round."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter

from appliance.catalog.catalog import LocalModel
from appliance.catalog.free_memory import read_free_bytes
from appliance.catalog.gguf import read_gguf
from appliance.catalog.memory_plan import LoadShape, MemoryPlan, cache_types, plan_memory, require_fit
from appliance.core.errors import ApplianceError
from benchmarks.energy import EnergyMeter
from benchmarks.llama_bench_columns import backends_of
from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Metric, Scalar
from benchmarks.speed_runner import SpeedRunner, SpeedSample, open_runner
from benchmarks.speed_tests import LoadChoice, SpeedTest

WARM_UP_ROUNDS = 1
_SHARE_OF_FREE_MEMORY = 0.5
_USED_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What to measure: every test on every model under every choice, `rounds` times.

    A plan that may end early is whole with fewer rounds; for `least_rounds` it goes on beyond its limit up to
    `last_limit_s`. `stage` tells apart records of one run that measure the same.
    """

    models: tuple[LocalModel, ...]
    choices: tuple[LoadChoice, ...]
    tests: tuple[SpeedTest, ...]
    rounds: int
    limit_s: float = float("inf")
    may_end_early: bool = False
    least_rounds: int = 0
    last_limit_s: float = 0.0
    stage: str = ""

    def is_over(self, elapsed_s: float, fewest_rounds: int) -> bool:
        """Whether nothing more is to begin."""
        limit_s = self.limit_s if fewest_rounds >= self.least_rounds else max(self.limit_s, self.last_limit_s)
        return elapsed_s > limit_s


@dataclass(slots=True)
class _Lane:
    """One configuration and one test, with what was measured so far."""

    local: LocalModel
    choice: LoadChoice
    test: SpeedTest
    doubts: Doubts
    samples: list[SpeedSample]
    joules: list[float]
    build: str = ""
    failure: str = ""


async def measure_engine(plan: EnginePlan, recorder: Recorder, energy: EnergyMeter) -> list[str]:
    """Run the suite; each test becomes a record. Returns what could not be measured.

    Rounds go over all configurations in turn, forward and backward by turns, so that what slows the machine for a
    while slows all of them. An interrupted run records what has at least one sample. When the time is used up nothing
    more begins, except that the first configuration is measured once.
    """
    lanes = [
        _Lane(local, choice, test, recorder.doubts(), [], [])
        for local in plan.models
        for choice in plan.choices
        for test in plan.tests
    ]
    recorder.expect(len(lanes) * (plan.rounds + WARM_UP_ROUNDS))
    began_s = perf_counter()
    try:
        async with AsyncExitStack() as stack:
            await _run_rounds(plan, lanes, stack, recorder, energy, began_s)
    finally:
        for lane in lanes:
            if lane.samples:
                _record(lane, plan, recorder, began_s, energy)
    return _missing(plan, lanes)


def _missing(plan: EnginePlan, lanes: Sequence[_Lane]) -> list[str]:
    """What failed, and what the time was too short for."""
    failed = [f"{lane.local.id} {lane.test.label}: {lane.failure}" for lane in lanes if lane.failure]
    wanted = 1 if plan.may_end_early else plan.rounds
    short = [lane for lane in lanes if not lane.failure and len(lane.samples) < wanted]
    if not short:
        return failed
    fewest = min(len(lane.samples) for lane in short)
    counts = f"{len(short)} of {len(lanes)} tests have fewer than {wanted} repetitions, the fewest {fewest or 'none'}"
    return [*failed, f"the time was used up: {counts}"]


async def _run_rounds(
    plan: EnginePlan,
    lanes: Sequence[_Lane],
    stack: AsyncExitStack,
    recorder: Recorder,
    energy: EnergyMeter,
    began_s: float,
) -> None:
    runners = _Runners(plan, stack, recorder.seed)
    for number in range(-WARM_UP_ROUNDS, plan.rounds):
        for lane in lanes if number % 2 == 0 else list(reversed(lanes)):
            fewest = min(len(one.samples) for one in lanes)
            is_over = plan.is_over(perf_counter() - began_s, fewest)
            if is_over and any(one.samples for one in lanes):
                return
            if lane.failure:
                recorder.advance(f"{lane.test.label}: left out")
            elif not is_over or lane is lanes[0]:
                await _measure(lane, runners, recorder, energy, is_warm_up=number < 0)


async def _measure(
    lane: _Lane, runners: _Runners, recorder: Recorder, energy: EnergyMeter, *, is_warm_up: bool
) -> None:
    name = f"{lane.local.id} {lane.test.label}"
    recorder.step(f"warming up: {name}" if is_warm_up else name)
    try:
        runner = await runners.get(lane.local, lane.choice)
        lane.build = runner.build
        with lane.doubts.watching(), energy.measuring() as used:
            sample = await runner.run(lane.test)
    except ApplianceError as error:
        lane.failure = error.message
        recorder.advance(f"{name}: {error.message}")
        return
    if is_warm_up:
        lane.doubts.uses.clear()
    else:
        lane.samples.append(sample)
        if used.joules is not None:
            lane.joules.append(used.joules / sample.tokens)
    recorder.advance(name, figure=sample.tokens_per_s, unit="tokens/s")


class _Runners:
    """Loaded engines: all at once where memory allows, otherwise one at a time."""

    def __init__(self, plan: EnginePlan, stack: AsyncExitStack, seed: int) -> None:
        self._context_tokens = max(test.context_tokens for test in plan.tests)
        self._stack = stack
        self._seed = seed
        self._open: dict[tuple[str, LoadChoice], tuple[SpeedRunner, AsyncExitStack]] = {}
        self._keeps_all = self._fit_together(plan)

    async def get(self, local: LocalModel, choice: LoadChoice) -> SpeedRunner:
        """Return the engine of a configuration, loading it when needed."""
        key = (local.id, choice)
        if key not in self._open:
            if not self._keeps_all:
                await self._close_all()
            require_fit(memory_plan(local, choice, self._context_tokens), local.id)
            inner = await self._stack.enter_async_context(AsyncExitStack())
            runner = await inner.enter_async_context(
                open_runner(local, choice, self._context_tokens, seed=self._seed)
            )
            self._open[key] = (runner, inner)
        return self._open[key][0]

    async def _close_all(self) -> None:
        for _, inner in self._open.values():
            await inner.aclose()
        self._open.clear()

    def _fit_together(self, plan: EnginePlan) -> bool:
        needed = sum(
            memory_plan(local, choice, self._context_tokens).total_bytes
            for local in plan.models
            for choice in plan.choices
        )
        return needed <= read_free_bytes() * _SHARE_OF_FREE_MEMORY


def memory_plan(local: LocalModel, choice: LoadChoice, context_tokens: int) -> MemoryPlan:
    """Predict the peak of a worker that is loaded so."""
    key_type, value_type = cache_types(choice.kv_type)
    params = choice.params(local, context_tokens)
    shape = LoadShape(
        context_tokens=params.context_window,
        sequences=params.parallel,
        kept_sequences=params.kept_sequences,
        key_type=key_type,
        value_type=value_type,
        batch_tokens=params.batch_tokens,
        ubatch_tokens=params.ubatch_tokens,
        prefill_tokens=params.prefill_chunk_tokens,
    )
    return plan_memory(read_gguf(local.path), shape)


def _record(lane: _Lane, plan: EnginePlan, recorder: Recorder, began_s: float, energy: EnergyMeter) -> None:
    metrics = [
        Metric(
            name="rate",
            unit="tokens/s",
            better="higher",
            samples=tuple(sample.tokens_per_s for sample in lane.samples),
        )
    ]
    by_cpu = [sample.tokens / sample.cpu_s for sample in lane.samples if sample.cpu_s > 0]
    if by_cpu:
        metrics.append(Metric(name="cpu_rate", unit="tokens/CPU s", better="higher", samples=tuple(by_cpu)))
    if lane.joules:
        metrics.append(Metric(name="energy", unit="J/token", better="lower", samples=tuple(lane.joules)))
    recorder.record(
        lane.test.label,
        configuration={
            "model": lane.local.id,
            **_sizes(lane.test),
            **lane.choice.configuration(),
            **({"stage": plan.stage} if plan.stage else {}),
        },
        metrics=metrics,
        began_s=began_s,
        facts={
            **_model_facts(lane.local),
            "depth_tokens": lane.samples[-1].depth_tokens,
            "energy": energy.source,
            "engine": lane.build,
        },
        doubts=[*lane.doubts.reasons(metrics), *_thread_doubts(lane), *_partial(lane, plan)],
    )


def _partial(lane: _Lane, plan: EnginePlan) -> list[str]:
    if plan.may_end_early or lane.failure or len(lane.samples) == plan.rounds:
        return []
    return [f"partial: {len(lane.samples)} of {plan.rounds} repetitions"]


def _thread_doubts(lane: _Lane) -> list[str]:
    """A rate of fewer threads, which the engine takes while others hold the cores, must not look like one of all."""
    used = [sample.cpu_s / sample.elapsed_s for sample in lane.samples if sample.cpu_s > 0]
    if lane.choice.threads == 1:
        return []
    if (
        not used
        or backends_of(lane.build) != "CPU"
        or statistics.median(used) > _USED_SHARE * lane.choice.threads
    ):
        return []
    had = f"the engine had {statistics.median(used):.1f} of {lane.choice.threads} threads' time"
    return [f"{had}: it runs fewer threads while other programs hold the cores"]


def _sizes(test: SpeedTest) -> Mapping[str, Scalar]:
    return {
        "n_prompt": test.tokens if test.kind == "pp" else 0,
        "n_gen": test.tokens if test.kind == "tg" else 0,
        "n_depth": test.depth_tokens,
    }


def _model_facts(local: LocalModel) -> Mapping[str, Scalar]:
    info = read_gguf(local.path)
    return {
        "model_filename": os.fspath(local.path.name),
        "model_type": f"{info.architecture} {info.quantisation}".strip(),
        "model_size": sum(info.tensor_bytes.values()),
        "model_n_params": info.parameters,
    }


def record_no_energy(recorder: Recorder, models: Sequence[LocalModel], energy: EnergyMeter) -> None:
    """Write for each model that nothing here measures energy, and why."""
    for local in models:
        recorder.record(
            "energy",
            configuration={"model": local.id},
            metrics=(),
            began_s=perf_counter(),
            facts={"energy": energy.source},
        )
