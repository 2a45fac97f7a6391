"""Runs a sweep on loaded engines inside its budget, and writes its records."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache, partial
from time import perf_counter

from appliance.catalog.memory_plan import MemoryPlan
from appliance.core.errors import ProviderUnavailableError
from benchmarks.energy import EnergyMeter
from benchmarks.engine_lanes import Lane, Runners, measure_lane, memory_plan, record_lane
from benchmarks.race import Contestant
from benchmarks.recorder import Recorder
from benchmarks.records import Metric, Scalar
from benchmarks.speed_tests import LoadChoice
from benchmarks.sweep import Sweep
from benchmarks.sweep_advice import Advice, advise
from benchmarks.sweep_plan import SIZES, RequestSize, SweepPlan, variations

_WANTED_ROUNDS = 24
_TRIAL = RequestSize(prompt_tokens=64, output_tokens=16)
_WARM_UP = RequestSize(prompt_tokens=32, output_tokens=4)
# Loading, texts and rounds that are slower than the trial take this much more than the requests themselves.
_OVERHEAD = 1.4
# What an engine that serves keeps beside the running requests; one that measures keeps fewer.
_SERVED_KEPT_SEQUENCES = 16


class EngineTimer:
    """Measures requests on engines that stay loaded; every measurement becomes part of the record of its choice."""

    def __init__(self, plan: SweepPlan, runners: Runners, recorder: Recorder, energy: EnergyMeter) -> None:
        self.failure = ""
        self.size = _TRIAL
        self._plan = plan
        self._runners = runners
        self._recorder = recorder
        self._energy = energy
        self.began_s = perf_counter()
        self._measured = 0
        self._lanes: dict[LoadChoice, tuple[Lane, Lane]] = {}

    def now_s(self) -> float:
        return perf_counter()

    def left_s(self) -> float:
        return self._plan.budget_s - (perf_counter() - self.began_s)

    async def choose_size(self, contestants: int) -> RequestSize:
        """The largest request of which so many can be measured often enough; this loads the usual choice.

        Raises:
            ProviderUnavailableError: not even the usual settings can be measured.
        """
        for _ in range(2):
            if await self.request_s(self._plan.usual) is None:
                raise ProviderUnavailableError(f"your settings cannot be measured: {self.failure}")
        prompt, output = (lane.samples[-1].tokens_per_s for lane in self._lanes.pop(self._plan.usual))
        request_s = self.left_s() / (_WANTED_ROUNDS * _OVERHEAD * (contestants + 1))
        sizes = [replace(size, depth_tokens=self._plan.depth_tokens) for size in SIZES]
        return next((size for size in sizes if size.cost_s(prompt, output) <= request_s), sizes[-1])

    async def request_s(self, choice: LoadChoice) -> float | None:
        """Seconds of the request under a choice, by the worker's clock."""
        if choice not in self._lanes:
            await self._warm_up(choice)
        spent_s = perf_counter() - self.began_s
        self._recorder.expect(round(self._measured * self.left_s() / spent_s) if self._measured else 0)
        self._measured += len(self._lanes[choice])
        seconds = 0.0
        for lane in self._lanes[choice]:
            sample = await measure_lane(lane, self._runners, self._recorder, self._energy)
            if sample is None:
                self.failure = lane.failure
                return None
            seconds += sample.elapsed_s
        return seconds

    async def _warm_up(self, choice: LoadChoice) -> None:
        for lane in self._new_lanes(choice, _WARM_UP):
            await measure_lane(lane, self._runners, self._recorder, self._energy, is_warm_up=True)
        self._lanes[choice] = self._new_lanes(choice, self.size)

    def _new_lanes(self, choice: LoadChoice, size: RequestSize) -> tuple[Lane, Lane]:
        first, second = (
            Lane(local=self._plan.local, choice=choice, test=test, doubts=self._recorder.doubts())
            for test in size.tests
        )
        return first, second

    def record(self) -> None:
        """Write what was measured of every choice."""
        for lanes in self._lanes.values():
            for lane in lanes:
                if lane.samples:
                    record_lane(lane, self._recorder, self._energy, self.began_s, with_cpu=False)


async def measure_sweep(plan: SweepPlan, recorder: Recorder, energy: EnergyMeter) -> Advice:
    """Run the sweep; interrupted or not, what was measured is recorded and the advice that follows from it.

    Raises:
        ProviderUnavailableError: nothing can be measured at all.
    """
    largest = plan.largest
    tried = variations(plan, largest)
    choices = [plan.usual, *(one.choice for one in tried if not one.skipped)]
    async with AsyncExitStack() as stack:
        runners = Runners((plan.local,), choices, largest.tests, stack, recorder.seed)
        timer = EngineTimer(plan, runners, recorder, energy)
        size = timer.size = plan.size or await timer.choose_size(len(tried))
        # Each sweep tosses coins of its own, so that none is wrong in the same way as the last.
        sweep = Sweep(plan, variations(plan, size), timer, seed=f"{recorder.seed} {recorder.run}")
        try:
            await sweep.run()
        except BaseException:
            record_sweep(plan, size, sweep, timer, recorder, is_whole=False)
            raise
        return record_sweep(plan, size, sweep, timer, recorder, is_whole=True)


def record_sweep(
    plan: SweepPlan,
    size: RequestSize,
    sweep: Sweep,
    timer: EngineTimer,
    recorder: Recorder,
    *,
    is_whole: bool,
) -> Advice:
    """Write the choices and the comparisons, and then the recommendation, whose predictions may take a while."""
    timer.record()
    found = sweep.found()
    configuration = _configuration(plan, size)
    for one, contestant in found.entered.items():
        _record_contestant(contestant, {**configuration, "other": one.name}, timer, recorder)
    if found.proof is not None:
        _record_contestant(found.proof, {**configuration, "other": "together"}, timer, recorder)
    advice = advise(plan, size, found, cache(partial(serving_memory, plan)))
    doubts = [] if is_whole else [f"partial: interrupted with {timer.left_s():.0f} s left"]
    if found.usual_failure:
        doubts.append(f"partial: your settings could not be measured any more: {found.usual_failure}")
    recorder.record(
        "recommendation",
        configuration=configuration,
        metrics=(),
        began_s=timer.began_s,
        facts={
            "recommendation": advice.headline,
            "evidence": " · ".join(f"{one.name} {one.value}: {one.reason}" for one in advice.settings),
            "changes": json.dumps(dict(advice.changes)),
            "memory": advice.memory,
            "is_change": bool(advice.changes),
            "note": "" if is_whole else f"so far {advice.headline}",
        },
        doubts=doubts,
    )
    return advice


def _record_contestant(
    contestant: Contestant, configuration: Mapping[str, Scalar], timer: EngineTimer, recorder: Recorder
) -> None:
    if not contestant.ratios:
        return
    interval = contestant.interval
    recorder.record(
        contestant.name,
        configuration=configuration,
        metrics=[Metric(name="speedup", unit="", better="higher", samples=tuple(contestant.ratios))],
        began_s=timer.began_s,
        facts={
            "standing": contestant.standing,
            "interval_low": interval.low,
            "interval_high": interval.high if math.isfinite(interval.high) else None,
            "confidence": contestant.confidence,
            "failure": contestant.failure,
        },
    )


def _configuration(plan: SweepPlan, size: RequestSize) -> dict[str, Scalar]:
    return {
        "model": plan.local.id,
        "n_prompt": size.prompt_tokens,
        "n_gen": size.output_tokens,
        "n_depth": size.depth_tokens,
        **plan.usual.configuration(),
    }


def serving_memory(plan: SweepPlan, choice: LoadChoice) -> MemoryPlan:
    """Predict what the appliance takes when it serves under a choice."""
    return memory_plan(
        plan.local,
        choice,
        choice.context_tokens,
        sequences=plan.parallel,
        kept_sequences=_SERVED_KEPT_SEQUENCES,
    )
