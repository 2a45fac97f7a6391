"""`bench memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from benchmarks.commands.options import Numbers, OutputFlags, SettingsSource, output_options

if TYPE_CHECKING:
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder


class MemoryFlags(OutputFlags):
    """Every option of `memory`."""

    models: tuple[str, ...]
    contexts: tuple[int, ...]


@click.command("memory")
@click.option("-m", "--model", "models", multiple=True, help="A model; may be given several times.")
@click.option("--context", "contexts", type=Numbers(256, 1 << 20), default="512,2048,4096", show_default=True)
@output_options
@click.pass_obj
def memory_command(source: SettingsSource, **flags: Unpack[MemoryFlags]) -> int:
    """Measure the peak of memory by context size, beside what is predicted before a model is loaded.

    For each size a worker is started and its whole context filled, one sequence. The peak is its resident memory,
    the pages of the weights file included. Memory of a GPU is not part of it.
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.memory_suite import measure_memory
    from benchmarks.speed_tests import LoadChoice, usual_threads

    settings = source.settings()
    models = local_models(settings, flags["models"])
    choice = LoadChoice(
        threads=settings.threads or usual_threads(),
        batch_tokens=settings.batch_tokens,
        ubatch_tokens=settings.ubatch_tokens,
        prefill_chunk_tokens=settings.prefill_chunk_tokens,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
        gpu_layers=settings.gpu_layers,
    )

    async def measure(recorder: Recorder) -> SuiteEnd:
        return SuiteEnd(missing=await measure_memory(models, flags["contexts"], choice, recorder))

    return run_suite("memory", settings, flags, measure, models=digests_of(models))
