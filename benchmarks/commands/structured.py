"""`bench structured`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from benchmarks.commands.options import OutputFlags, SettingsSource, budget_option, output_options

if TYPE_CHECKING:
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder


class StructuredFlags(OutputFlags):
    """Every option of `structured`."""

    model: str | None
    repetitions: int
    schemas: int
    with_server: bool
    budget_s: float


@click.command("structured")
@click.option("-m", "--model", help="The model.")
@click.option("-r", "--repetitions", default=5, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--schemas", default=4, show_default=True, type=click.IntRange(1, 4), help="Of each of two styles."
)
@click.option(
    "--peer", "with_server", is_flag=True, help="Also ask llama-server, which is compiled when needed."
)
@budget_option("Begin nothing after so long.")
@output_options
@click.pass_obj
def structured_command(source: SettingsSource, **flags: Unpack[StructuredFlags]) -> int:
    """Measure answers held to a schema against free ones: rate, forward passes a token, validity.

    Calls of functions, and records to extract; free and constrained take turns, prompts already in the KV cache. Then
    all schemas at once, each beside a free answer to the same prompt, against as many free ones.
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.speed_tests import usual_threads
    from benchmarks.structured_suite import measure_structured

    settings = source.settings()
    (local,) = local_models(settings, (flags["model"],) if flags["model"] else ())

    async def measure(recorder: Recorder) -> SuiteEnd:
        missing = await measure_structured(
            local.id,
            rounds=flags["repetitions"],
            threads=settings.threads or usual_threads(),
            cases_each=flags["schemas"],
            with_server=flags["with_server"],
            recorder=recorder,
            limit_s=flags["budget_s"],
        )
        return SuiteEnd(missing=missing)

    return run_suite("structured", settings, flags, measure, models=digests_of([local]))
