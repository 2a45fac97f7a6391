"""`bench selfcheck`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from benchmarks.commands.options import OutputFlags, SettingsSource, output_options

if TYPE_CHECKING:
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder


@click.command("selfcheck")
@output_options
@click.pass_obj
def selfcheck_command(source: SettingsSource, **flags: Unpack[OutputFlags]) -> int:
    """Check the client: the exit code is 1 where a time is off by more than 2 ms and 2 %, or undecided.

    A server of known times to the first token and between tokens runs in a process beside; then one that sends 5,000
    tokens a second. On a busy machine a check may fail without a fault of the client; the doubts say so.
    """
    from benchmarks.commands.running import SuiteEnd, run_suite
    from benchmarks.selfcheck import CHECKS, check_throughput, check_times

    wrong: list[str] = []

    async def measure(recorder: Recorder) -> SuiteEnd:
        recorder.expect(len(CHECKS) + 1)
        verdicts = [await check_times(check, recorder) for check in CHECKS]
        verdicts.append(await check_throughput(recorder))
        wrong.extend(
            f"{record.test}: {record.facts['verdict']}"
            for record, is_right in zip(recorder.records, verdicts, strict=True)
            if not is_right
        )
        lines = wrong or ["every check is right"]
        return SuiteEnd(lines=lines, extra={"is_right": not wrong, "wrong": list(wrong)})

    code = run_suite("selfcheck", source.settings(), flags, measure, models={})
    return 1 if wrong else code
