"""One configuration and one test of the engine: measured once at a time, and written down as a record."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

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

_SHARE_OF_FREE_MEMORY = 0.5
_USED_SHARE = 0.75


@dataclass(slots=True, kw_only=True)
class Lane:
    """One configuration and one test, with what was measured so far."""

    local: LocalModel
    choice: LoadChoice
    test: SpeedTest
    doubts: Doubts
    samples: list[SpeedSample] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)
    build: str = ""
    context_window: int = 0
    failure: str = ""

    @property
    def name(self) -> str:
        """Model and test."""
        return f"{self.local.id} {self.test.label}"


class Runners:
    """Loaded engines: all at once where memory allows, otherwise one at a time."""

    def __init__(
        self,
        models: Sequence[LocalModel],
        choices: Sequence[LoadChoice],
        tests: Sequence[SpeedTest],
        stack: AsyncExitStack,
        seed: int,
    ) -> None:
        self._context_tokens = max(test.context_tokens for test in tests)
        self._stack = stack
        self._seed = seed
        self._open: dict[tuple[str, LoadChoice], tuple[SpeedRunner, AsyncExitStack]] = {}
        self._keeps_all = self._fit_together(models, choices)

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

    def _fit_together(self, models: Sequence[LocalModel], choices: Sequence[LoadChoice]) -> bool:
        needed = sum(
            memory_plan(local, choice, self._context_tokens).total_bytes
            for local in models
            for choice in choices
        )
        return needed <= read_free_bytes() * _SHARE_OF_FREE_MEMORY


async def measure_lane(
    lane: Lane, runners: Runners, recorder: Recorder, energy: EnergyMeter, *, is_warm_up: bool = False
) -> SpeedSample | None:
    """Measure once; None where it failed, which the lane then says."""
    recorder.step(f"warming up: {lane.name}" if is_warm_up else lane.name)
    try:
        runner = await runners.get(lane.local, lane.choice)
        lane.build = runner.build
        lane.context_window = runner.engine.params.context_window
        with lane.doubts.watching(), energy.measuring() as used:
            sample = await runner.run(lane.test)
    except ApplianceError as error:
        lane.failure = error.message
        recorder.advance(f"{lane.name}: {error.message}")
        return None
    if is_warm_up:
        lane.doubts.uses.clear()
    else:
        lane.samples.append(sample)
        if used.joules is not None:
            lane.joules.append(used.joules / sample.tokens)
    recorder.advance(lane.name, figure=sample.tokens_per_s, unit="tokens/s")
    return sample


def memory_plan(
    local: LocalModel,
    choice: LoadChoice,
    context_tokens: int,
    *,
    sequences: int | None = None,
    kept_sequences: int | None = None,
) -> MemoryPlan:
    """Predict the peak of a worker that is loaded so; None takes as many sequences as a measurement has."""
    key_type, value_type = cache_types(choice.kv_type)
    params = choice.params(local, context_tokens)
    shape = LoadShape(
        context_tokens=params.context_window,
        sequences=params.parallel if sequences is None else sequences,
        kept_sequences=params.kept_sequences if kept_sequences is None else kept_sequences,
        key_type=key_type,
        value_type=value_type,
        batch_tokens=params.batch_tokens,
        ubatch_tokens=params.ubatch_tokens,
        prefill_tokens=params.prefill_chunk_tokens,
    )
    return plan_memory(read_gguf(local.path), shape)


def record_lane(
    lane: Lane,
    recorder: Recorder,
    energy: EnergyMeter,
    began_s: float,
    *,
    doubts: Sequence[str] = (),
    with_cpu: bool = True,
) -> None:
    """Write what was measured of one lane, with what else speaks against it, and by processor time if wanted."""
    metrics = [metric for metric in _metrics(lane) if with_cpu or metric.name != "cpu_rate"]
    recorder.record(
        lane.test.label,
        configuration={"model": lane.local.id, **_sizes(lane.test), **lane.choice.configuration()},
        metrics=metrics,
        began_s=began_s,
        facts={
            **_model_facts(lane.local),
            "depth_tokens": lane.samples[-1].depth_tokens,
            "context_window": lane.context_window,
            "energy": energy.source,
            "engine": lane.build,
        },
        doubts=[*lane.doubts.reasons(metrics), *_thread_doubts(lane), *doubts],
    )


def _metrics(lane: Lane) -> list[Metric]:
    rates = tuple(sample.tokens_per_s for sample in lane.samples)
    metrics = [Metric(name="rate", unit="tokens/s", better="higher", samples=rates)]
    by_cpu = [sample.tokens / sample.cpu_s for sample in lane.samples if sample.cpu_s > 0]
    if by_cpu:
        metrics.append(Metric(name="cpu_rate", unit="tokens/CPU s", better="higher", samples=tuple(by_cpu)))
    if lane.joules:
        metrics.append(Metric(name="energy", unit="J/token", better="lower", samples=tuple(lane.joules)))
    return metrics


def _thread_doubts(lane: Lane) -> list[str]:
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
