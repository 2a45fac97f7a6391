"""`bench engine` and `bench energy`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

import click

from benchmarks.commands.options import (
    Numbers,
    OutputFlags,
    SettingsSource,
    Words,
    budget_option,
    output_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.catalog.catalog import LocalModel
    from appliance.config import Settings
    from appliance.engine.params import KvType
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.engine_speed import EnginePlan
    from benchmarks.recorder import Recorder
    from benchmarks.speed_tests import FlashAttention

_SIZE = Numbers(0, 1 << 20)


class EngineFlags(OutputFlags):
    """Every option of `engine`."""

    models: tuple[str, ...]
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    depths: tuple[int, ...]
    batches: tuple[int, ...]
    ubatches: tuple[int, ...]
    threads: tuple[int, ...] | None
    flash: tuple[str, ...]
    kv_types: tuple[str, ...]
    gpu_layers: tuple[int, ...]
    repetitions: int
    budget_s: float
    peer_file: Path | None


@click.command("engine")
@click.option("-m", "--model", "models", multiple=True, help="A model; may be given several times.")
@click.option("-p", "--n-prompt", "prompts", type=_SIZE, default="512", show_default=True)
@click.option("-n", "--n-gen", "outputs", type=_SIZE, default="128", show_default=True)
@click.option("-d", "--n-depth", "depths", type=_SIZE, default="0", show_default=True)
@click.option("-b", "--batch-size", "batches", type=Numbers(32, 1 << 16), default="2048", show_default=True)
@click.option("-ub", "--ubatch-size", "ubatches", type=Numbers(0, 1 << 16), default="0",
              help="0: micro-batches of 512, prompts in pieces of 256, as in use.")  # fmt: skip
@click.option("-t", "--threads", "threads", type=Numbers(1, 1024), help="Default: as in the settings.")
@click.option(
    "-fa", "--flash-attn", "flash", type=Words("auto", "on", "off"), default="auto", show_default=True
)
@click.option("-ctk", "--kv-type", "kv_types", type=Words("f16", "q8_0", "q4_0", "reproducible"), default="f16",
              show_default=True)  # fmt: skip
@click.option(
    "-ngl", "--n-gpu-layers", "gpu_layers", type=Numbers(-1, 10_000), default="-1", show_default=True
)
@click.option("-r", "--repetitions", default=5, show_default=True, type=click.IntRange(1, 1000))
@budget_option("Begin no round after so long.")
@click.option("--llama-bench", "peer_file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="JSON that llama-bench wrote with `-o json`; its figures are laid beside.")  # fmt: skip
@output_options
@click.pass_obj
def engine_command(source: SettingsSource, **flags: Unpack[EngineFlags]) -> int:
    """Measure prompt processing (pp) and generation (tg), as llama-bench names them.

    Several sizes or settings, with commas between them, are all combined and measured in turn, after one round to
    warm up. Times are the worker's own; `tg128` is 128 tokens after the first. Answers do not end early.

    \b
    appliance bench engine -p 512 -n 128 -d 0,512
    appliance bench engine -m smollm2 -m gemma3 -t 1,2 --llama-bench theirs.json
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.energy import EnergyMeter
    from benchmarks.engine_speed import measure_engine
    from benchmarks.llama_bench_columns import beside_lines, lay_beside, read_llama_bench

    settings = source.settings()
    models = local_models(settings, flags["models"])
    plan = _plan(settings, models, flags)
    theirs = read_llama_bench(flags["peer_file"]) if flags["peer_file"] else []

    async def measure(recorder: Recorder) -> SuiteEnd:
        missing = await measure_engine(plan, recorder, EnergyMeter())
        pairs = lay_beside(recorder.records, theirs)
        lines = beside_lines(pairs) if theirs else []
        return SuiteEnd(missing=missing, lines=lines, extra={"llama_bench": [asdict(pair) for pair in pairs]})

    return run_suite("engine", settings, flags, measure, models=digests_of(models))


def _plan(settings: Settings, models: Sequence[LocalModel], flags: EngineFlags) -> EnginePlan:
    from benchmarks.engine_speed import EnginePlan
    from benchmarks.speed_tests import load_choices, speed_tests

    return EnginePlan(
        models=tuple(models),
        tests=tuple(speed_tests(flags["prompts"], flags["outputs"], flags["depths"])),
        choices=tuple(
            load_choices(
                threads=flags["threads"] or (_threads(settings),),
                batches=flags["batches"],
                ubatches=flags["ubatches"],
                flash=cast("tuple[FlashAttention, ...]", flags["flash"]),
                kv_types=cast("tuple[KvType, ...]", flags["kv_types"]),
                gpu_layers=flags["gpu_layers"],
            )
        ),
        rounds=flags["repetitions"],
        limit_s=flags["budget_s"],
    )


def _threads(settings: Settings) -> int:
    """Threads by their number, so that records of machines with more cores do not look alike."""
    from benchmarks.speed_tests import usual_threads

    return settings.threads or usual_threads()


class EnergyFlags(OutputFlags):
    """Every option of `energy`."""

    models: tuple[str, ...]
    repetitions: int


@click.command("energy")
@click.option("-m", "--model", "models", multiple=True, help="A model; may be given several times.")
@click.option("-r", "--repetitions", default=5, show_default=True, type=click.IntRange(1, 1000))
@output_options
@click.pass_obj
def energy_command(source: SettingsSource, **flags: Unpack[EnergyFlags]) -> int:
    """Measure joules a token of prompts and answers, by RAPL and by NVIDIA's driver.

    The counters see the whole machine, so other programs count as well. Many virtual machines hide them, and most
    systems show RAPL to root alone; then the result is "not measurable here", with the reason. Counters of GPUs
    have been tested with answers in the form that NVIDIA documents, and not on hardware.
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.energy import EnergyMeter
    from benchmarks.engine_speed import EnginePlan, measure_engine, record_no_energy
    from benchmarks.speed_tests import LoadChoice, speed_tests

    settings = source.settings()
    meter = EnergyMeter()
    models = local_models(settings, flags["models"])

    async def measure(recorder: Recorder) -> SuiteEnd:
        if not meter.is_available:
            record_no_energy(recorder, models, meter)
            return SuiteEnd()
        plan = EnginePlan(
            models=tuple(models),
            choices=(LoadChoice(threads=_threads(settings), gpu_layers=settings.gpu_layers),),
            tests=tuple(speed_tests((512,), (128,), (0,))),
            rounds=flags["repetitions"],
        )
        return SuiteEnd(missing=await measure_engine(plan, recorder, meter))

    return run_suite("energy", settings, flags, measure, models=digests_of(models))
