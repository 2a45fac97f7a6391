"""`bench selfcheck`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from benchmarks.commands.options import OutputFlags, SettingsSource, output_options

if TYPE_CHECKING:
    from appliance.config import Settings
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder


class SelfcheckFlags(OutputFlags):
    """Every option of `selfcheck`."""

    model: str | None


@click.command("selfcheck")
@click.option(
    "-m", "--model", help="Whose tokens prompts are counted in; default: the model of the settings."
)
@output_options
@click.pass_obj
def selfcheck_command(source: SettingsSource, **flags: Unpack[SelfcheckFlags]) -> int:
    """Check the client: the exit code is 1 where a time is off by more than 2 ms and 2 %, or undecided.

    A server of known times to the first token and between tokens runs in a process beside; then one that sends 5,000
    tokens a second. On a busy machine a check may fail without a fault of the client; the doubts say so. Last, prompts
    of many lengths must have exactly the tokens asked for, and be the same when they are made again.
    """
    from benchmarks.commands.running import SuiteEnd, local_models, run_suite
    from benchmarks.selfcheck import CHECKS, check_throughput, check_times

    settings = source.settings()
    if flags["model"]:
        local_models(
            settings, (flags["model"],)
        )  # a name that is wrong must not pass as a model that is missing
    wrong: list[str] = []

    async def measure(recorder: Recorder) -> SuiteEnd:
        recorder.expect(len(CHECKS) + 2)
        verdicts = [await check_times(check, recorder) for check in CHECKS]
        verdicts.append(await check_throughput(recorder))
        missing = await _check_workload(settings, flags["model"], recorder, verdicts)
        wrong.extend(
            f"{record.test}: {record.facts['verdict']}"
            for record, is_right in zip(recorder.records, verdicts, strict=True)
            if not is_right
        )
        lines = wrong or ["every check is right"]
        return SuiteEnd(missing=missing, lines=lines, extra={"is_right": not wrong, "wrong": list(wrong)})

    code = run_suite("selfcheck", settings, flags, measure, models={})
    return 1 if wrong else code


async def _check_workload(
    settings: Settings, model: str | None, recorder: Recorder, verdicts: list[bool]
) -> list[str]:
    """Check with a model of this machine; returns why not, where there is none."""
    from appliance.app import build_appliance
    from appliance.core.clock import SystemClock
    from appliance.core.errors import ModelNotFoundError
    from benchmarks.commands.running import local_models
    from benchmarks.gateway_target import GatewayTarget
    from benchmarks.selfcheck import check_workload

    try:
        (local,) = local_models(settings, (model,) if model else ())
    except ModelNotFoundError as error:
        return [f"prompts of exact lengths: {error.message}"]
    async with build_appliance(settings) as appliance:
        target = GatewayTarget(gateway=appliance.gateway, model=local.id, clock=SystemClock())
        verdicts.append(await check_workload(local.id, target.count_tokens, recorder))
    return []
