"""The suite `memory`: the peak that is predicted for a context size, and the one a worker really reaches."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from appliance.catalog.catalog import LocalModel
from appliance.catalog.memory_plan import MemoryPlan, require_fit
from appliance.core.errors import ApplianceError
from benchmarks.engine_lanes import memory_plan
from benchmarks.recorder import Recorder
from benchmarks.records import Metric
from benchmarks.speed_runner import open_runner
from benchmarks.speed_tests import LoadChoice, SpeedTest

_NOT_EVALUATED = 8


async def measure_memory(
    models: Sequence[LocalModel], contexts: Sequence[int], choice: LoadChoice, recorder: Recorder
) -> list[str]:
    """Fill the context of each size and read the worker's peak. Returns what could not be measured."""
    recorder.expect(len(models) * len(contexts))
    missing = []
    for local in models:
        for context_tokens in contexts:
            name = f"{local.id}, context {context_tokens}"
            recorder.step(name)
            try:
                await _measure(local, context_tokens, choice, recorder)
            except ApplianceError as error:
                missing.append(f"{name}: {error.message}")
            recorder.advance(name)
    return missing


async def _measure(local: LocalModel, context_tokens: int, choice: LoadChoice, recorder: Recorder) -> None:
    began_s = perf_counter()
    plan = memory_plan(local, choice, context_tokens)
    require_fit(plan, local.id)
    async with open_runner(local, choice, context_tokens, seed=recorder.seed) as runner:
        window = runner.engine.params.context_window
        await runner.run(SpeedTest(kind="pp", tokens=window - _NOT_EVALUATED))
        stats = await runner.engine.stats()
    recorder.record(
        f"context {context_tokens}",
        configuration={"model": local.id, "context_tokens": window, **choice.configuration()},
        metrics=_metrics(plan, stats.peak_resident_bytes),
        began_s=began_s,
        facts={
            "weights_bytes": plan.weights_bytes,
            "repacked_bytes": plan.repacked_bytes,
            "kv_cache_bytes": plan.kv_cache_bytes,
            "compute_bytes": plan.compute_bytes,
            "runtime_bytes": plan.runtime_bytes,
        },
    )


def _metrics(plan: MemoryPlan, peak_bytes: int) -> list[Metric]:
    return [
        Metric(name="predicted_peak", unit="bytes", better="lower", samples=(float(plan.total_bytes),)),
        Metric(name="real_peak", unit="bytes", better="lower", samples=(float(peak_bytes),)),
        Metric(
            name="real_over_predicted", unit="", better="neither", samples=(peak_bytes / plan.total_bytes,)
        ),
    ]
