"""The suite `engine`: prompt processing and generation of every way of loading, measured in turn, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter

from appliance.catalog.catalog import LocalModel
from benchmarks.energy import EnergyMeter
from benchmarks.engine_lanes import Lane, Runners, measure_lane, record_lane
from benchmarks.recorder import Recorder
from benchmarks.speed_tests import LoadChoice, SpeedTest

WARM_UP_ROUNDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What to measure: every test on every model under every choice, `rounds` times."""

    models: tuple[LocalModel, ...]
    choices: tuple[LoadChoice, ...]
    tests: tuple[SpeedTest, ...]
    rounds: int
    limit_s: float = float("inf")


async def measure_engine(plan: EnginePlan, recorder: Recorder, energy: EnergyMeter) -> list[str]:
    """Run the suite; each test becomes a record. Returns what could not be measured.

    Rounds go over all configurations in turn, forward and backward by turns, so that what slows the machine for a
    while slows all of them. An interrupted run records what has at least one sample. When the time is used up nothing
    more begins, except that the first configuration is measured once.
    """
    lanes = [
        Lane(local=local, choice=choice, test=test, doubts=recorder.doubts())
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
                record_lane(lane, recorder, energy, began_s, doubts=_partial(lane, plan))
    return _missing(plan, lanes)


def _missing(plan: EnginePlan, lanes: Sequence[Lane]) -> list[str]:
    """What failed, and what the time was too short for."""
    failed = [f"{lane.name}: {lane.failure}" for lane in lanes if lane.failure]
    short = [lane for lane in lanes if not lane.failure and len(lane.samples) < plan.rounds]
    if not short:
        return failed
    fewest = min(len(lane.samples) for lane in short)
    counts = f"{len(short)} of {len(lanes)} tests have fewer than {plan.rounds} repetitions"
    return [*failed, f"the time was used up: {counts}, the fewest {fewest or 'none'}"]


async def _run_rounds(
    plan: EnginePlan,
    lanes: Sequence[Lane],
    stack: AsyncExitStack,
    recorder: Recorder,
    energy: EnergyMeter,
    began_s: float,
) -> None:
    runners = Runners(plan.models, plan.choices, plan.tests, stack, recorder.seed)
    for number in range(-WARM_UP_ROUNDS, plan.rounds):
        for lane in lanes if number % 2 == 0 else list(reversed(lanes)):
            is_over = perf_counter() - began_s > plan.limit_s
            if is_over and any(one.samples for one in lanes):
                return
            if lane.failure:
                recorder.advance(f"{lane.test.label}: left out")
            elif not is_over or lane is lanes[0]:
                await measure_lane(lane, runners, recorder, energy, is_warm_up=number < 0)


def _partial(lane: Lane, plan: EnginePlan) -> list[str]:
    if lane.failure or len(lane.samples) == plan.rounds:
        return []
    return [f"partial: {len(lane.samples)} of {plan.rounds} repetitions"]


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
