"""`bench sweep`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Unpack

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
    from appliance.catalog.catalog import LocalModel
    from appliance.config import Settings
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder
    from benchmarks.sweep_plan import RequestSize, SweepPlan


class SweepFlags(OutputFlags):
    """Every option of `sweep`."""

    model: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    depth_tokens: int
    threads: tuple[int, ...] | None
    batches: tuple[int, ...]
    ubatches: tuple[int, ...]
    flash: tuple[str, ...]
    kv_types: tuple[str, ...]
    contexts: tuple[int, ...] | None
    gpu_layers: tuple[int, ...] | None
    repetitions: int
    budget_s: float
    lossy: bool


@click.command("sweep")
@click.option("-m", "--model", help="The model.")
@click.option("-p", "--n-prompt", "prompt_tokens", type=click.IntRange(1, 1 << 20),
              help="Tokens of the prompt. Default: 64 to 512, what leaves time for enough rounds.")  # fmt: skip
@click.option("-n", "--n-gen", "output_tokens", type=click.IntRange(1, 1 << 20),
              help="Tokens of its answer. Default: a quarter of the prompt.")  # fmt: skip
@click.option("-d", "--n-depth", "depth_tokens", default=0, show_default=True, type=click.IntRange(0, 1 << 20),
              help="Tokens of context before.")  # fmt: skip
@click.option("-t", "--threads", "threads", type=Numbers(1, 1024),
              help="Default: 1 to all cores; of more than 4 half, those in use, one less, and all.")  # fmt: skip
@click.option("-b", "--batch-size", "batches", type=Numbers(32, 1 << 16), default="512", show_default=True)
@click.option(
    "-ub", "--ubatch-size", "ubatches", type=Numbers(32, 1 << 16), default="128,512", show_default=True
)
@click.option(
    "-fa", "--flash-attn", "flash", type=Words("auto", "on", "off"), default="auto,off", show_default=True
)
@click.option("-ctk", "--kv-type", "kv_types", type=Words("f16", "q8_0", "q4_0", "reproducible"), default="f16,q8_0",
              show_default=True)  # fmt: skip
@click.option("-c", "--context", "contexts", type=Numbers(64, 1 << 20),
              help="Context windows. Default: twice that of the settings, where the model has it.")  # fmt: skip
@click.option("-ngl", "--n-gpu-layers", "gpu_layers", type=Numbers(-1, 10_000),
              help="Default: with a GPU build none; otherwise nothing is varied.")  # fmt: skip
@click.option("-r", "--repetitions", default=200, show_default=True, type=click.IntRange(1, 10_000),
              help="Most rounds of one value.")  # fmt: skip
@budget_option("Use so much time; nothing begins after it.", default="5m")
@click.option("--lossy", is_flag=True, help="Recommend a KV type that changes answers, when it is faster.")
@output_options
@click.pass_obj
def sweep_command(source: SettingsSource, **flags: Unpack[SweepFlags]) -> int:
    """Find settings that answer a request of so many prompt and output tokens sooner on this machine.

    Each setting is varied by itself, against those you have, in rounds whose order chance decides. What is decided
    (faster, slower, or the same within 3 %) rests, so that the rest gets more rounds; what is faster is put together
    and proven in rounds of its own. The end is a recommendation with the reason for each setting, the lines to write
    where, and the memory it takes. All its statements together are wrong in at most 5 % of sweeps.

    \b
    appliance bench sweep --budget 5m
    appliance bench sweep -m gemma3 -p 1024 -n 256 -t 1,2,4 --budget 20m
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.energy import EnergyMeter
    from benchmarks.sweep_suite import measure_sweep

    settings = source.settings()
    (local,) = local_models(settings, (flags["model"],) if flags["model"] else ())
    plan = _plan(settings, local, flags)

    async def measure(recorder: Recorder) -> SuiteEnd:
        advice = await measure_sweep(plan, recorder, EnergyMeter())
        return SuiteEnd(lines=advice.lines(settings.config_file), extra={"advice": asdict(advice)})

    return run_suite("sweep", settings, flags, measure, models=digests_of([local]))


def _plan(settings: Settings, local: LocalModel, flags: SweepFlags) -> SweepPlan:
    from benchmarks.fingerprint import usable_cores
    from benchmarks.speed_tests import LoadChoice, usual_threads
    from benchmarks.sweep_plan import SweepPlan, thread_counts

    usual = LoadChoice(
        threads=settings.threads or usual_threads(),
        batch_tokens=settings.batch_tokens,
        ubatch_tokens=settings.ubatch_tokens,
        prefill_chunk_tokens=settings.prefill_chunk_tokens,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
        gpu_layers=settings.gpu_layers,
        context_tokens=_usual_context(settings, local),
    )
    return SweepPlan(
        local=local,
        usual=usual,
        values={
            "threads": flags["threads"] or thread_counts(usable_cores(), usual.threads),
            "batch_tokens": flags["batches"],
            "ubatch_tokens": flags["ubatches"],
            "flash_attention": flags["flash"],
            "kv_type": flags["kv_types"],
            "context_window": _contexts(local, usual.context_tokens, flags["contexts"]),
            "gpu_layers": flags["gpu_layers"] or _gpu_layers(),
        },
        size=_size(flags),
        depth_tokens=flags["depth_tokens"],
        most_rounds=flags["repetitions"],
        budget_s=flags["budget_s"],
        parallel=settings.parallel,
        may_change_answers=flags["lossy"],
    )


def _size(flags: SweepFlags) -> RequestSize | None:
    from benchmarks.sweep_plan import RequestSize

    prompt, output = flags["prompt_tokens"], flags["output_tokens"]
    if prompt is None and output is None:
        return None
    return RequestSize(
        prompt_tokens=prompt or 4 * (output or 1),
        output_tokens=output or max(1, (prompt or 1) // 4),
        depth_tokens=flags["depth_tokens"],
    )


def _usual_context(settings: Settings, local: LocalModel) -> int:
    trained = local.card.context_window
    return min(settings.context_window, trained) if trained else settings.context_window


def _contexts(local: LocalModel, usual: int, stated: tuple[int, ...] | None) -> tuple[int, ...]:
    trained = local.card.context_window
    if stated is None:
        return (2 * usual,) if not trained or 2 * usual <= trained else ()
    if trained and max(stated) > trained:
        raise click.UsageError(f"{local.id} was trained for {trained} tokens of context, not {max(stated)}")
    return stated


def _gpu_layers() -> tuple[int, ...]:
    from appliance.engine.build_record import read_installed_build

    build = read_installed_build()
    return (0,) if build and build.backend != "cpu" else ()
