"""`bench sweep`."""

from __future__ import annotations

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
    from appliance.config import Settings
    from appliance.engine.params import KvType
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder
    from benchmarks.speed_tests import FlashAttention


class SweepFlags(OutputFlags):
    """Every option of `sweep`."""

    model: str | None
    prompt_tokens: int
    output_tokens: int
    depth_tokens: int
    threads: tuple[int, ...] | None
    batches: tuple[int, ...]
    ubatches: tuple[int, ...]
    flash: tuple[str, ...]
    kv_types: tuple[str, ...]
    gpu_layers: tuple[int, ...] | None
    repetitions: int
    budget_s: float
    lossy: bool


@click.command("sweep")
@click.option("-m", "--model", help="The model.")
@click.option(
    "-p", "--n-prompt", "prompt_tokens", default=256, show_default=True, type=click.IntRange(1, 1 << 20)
)
@click.option(
    "-n", "--n-gen", "output_tokens", default=64, show_default=True, type=click.IntRange(1, 1 << 20)
)
@click.option("-d", "--n-depth", "depth_tokens", default=0, show_default=True, type=click.IntRange(0, 1 << 20),
              help="Tokens of context before.")  # fmt: skip
@click.option("-t", "--threads", "threads", type=Numbers(1, 1024), help="Default: 1 to the number of cores.")
@click.option("-b", "--batch-size", "batches", type=Numbers(32, 1 << 16), default="2048", show_default=True)
@click.option(
    "-ub", "--ubatch-size", "ubatches", type=Numbers(32, 1 << 16), default="128,512", show_default=True
)
@click.option(
    "-fa", "--flash-attn", "flash", type=Words("auto", "on", "off"), default="auto,off", show_default=True
)
@click.option("-ctk", "--kv-type", "kv_types", type=Words("f16", "q8_0", "q4_0", "reproducible"), default="f16,q8_0",
              show_default=True)  # fmt: skip
@click.option("-ngl", "--n-gpu-layers", "gpu_layers", type=Numbers(-1, 10_000), help="Default: as in the settings; "
              "with a GPU build also 0.")  # fmt: skip
@click.option("-r", "--repetitions", default=5, show_default=True, type=click.IntRange(1, 100))
@budget_option("Keep it inside this time.", default="5m")
@click.option("--lossy", is_flag=True, help="Recommend a KV type that changes answers, when it is faster.")
@output_options
@click.pass_obj
def sweep_command(source: SettingsSource, **flags: Unpack[SweepFlags]) -> int:
    """Find settings that answer a request of so many prompt and output tokens sooner on this machine.

    One setting is varied at a time around those you have, all in turn. What promises to be faster is put together
    and measured against yours once more, round by round; only what holds there in at least six rounds is
    recommended, otherwise no difference was shown. A larger budget shows smaller differences. After the budget
    nothing more begins.

    \b
    appliance bench sweep --budget 5m
    appliance bench sweep -m gemma3 -p 1024 -n 256 -t 1,2,4 --budget 20m
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.energy import EnergyMeter
    from benchmarks.speed_tests import LoadChoice, usual_threads
    from benchmarks.sweep import SweepPlan, measure_sweep

    settings = source.settings()
    (local,) = local_models(settings, (flags["model"],) if flags["model"] else ())
    usual = LoadChoice(
        threads=settings.threads or usual_threads(),
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
        gpu_layers=settings.gpu_layers,
    )
    plan = SweepPlan(
        local=local,
        usual=usual,
        threads=flags["threads"] or tuple(range(1, max(usual.threads, usual_threads()) + 1)),
        batches=flags["batches"],
        ubatches=flags["ubatches"],
        flash=cast("tuple[FlashAttention, ...]", flags["flash"]),
        kv_types=cast("tuple[KvType, ...]", flags["kv_types"]),
        gpu_layers=flags["gpu_layers"] or _gpu_layers(settings),
        prompt_tokens=flags["prompt_tokens"],
        output_tokens=flags["output_tokens"],
        depth_tokens=flags["depth_tokens"],
        rounds=flags["repetitions"],
        budget_s=flags["budget_s"],
        may_change_answers=flags["lossy"],
    )

    async def measure(recorder: Recorder) -> SuiteEnd:
        missing, lines = await measure_sweep(plan, recorder, EnergyMeter())
        return SuiteEnd(missing=missing, lines=lines, extra={"evidence": lines})

    return run_suite("sweep", settings, flags, measure, models=digests_of([local]))


def _gpu_layers(settings: Settings) -> tuple[int, ...]:
    from appliance.engine.build_record import read_installed_build

    build = read_installed_build()
    return (settings.gpu_layers, 0) if build and build.backend != "cpu" else (settings.gpu_layers,)
