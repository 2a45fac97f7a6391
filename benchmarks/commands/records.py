"""`bench history`, `bench compare` and `bench report`: what is done with runs that are kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks.commands.options import SettingsSource

if TYPE_CHECKING:
    from benchmarks.records import Run

FORMATS = ("markdown", "csv", "json", "html", "llama-bench")
_SUFFIXES = {".md": "markdown", ".csv": "csv", ".json": "json", ".html": "html", ".htm": "html"}


@click.command("history")
@click.option("--suite", help="Only runs of this suite.")
@click.option("-n", "--last", type=click.IntRange(1), help="Only the newest so many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def history_command(source: SettingsSource, *, suite: str | None, last: int | None, as_json: bool) -> int:
    """List the runs that are kept, oldest first: when, which suite and models, and how many records."""
    from benchmarks.commands.running import store_of
    from benchmarks.tables import aligned

    store = store_of(source.settings())
    found = list(store.runs())
    warnings = [warning for run in found for warning in run.warnings()]
    runs = [run for run in found if run.records and (suite is None or suite in run.suites)]
    rows = [_history_row(run) for run in (runs[-last:] if last else runs)]
    if as_json:
        click.echo(json.dumps({"folder": str(store.folder), "runs": rows, "warnings": warnings}, indent=2))
        return 0
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if not rows:
        click.echo(f"no run is kept in {store.folder}")
        return 0
    head = ("RUN", "SUITE", "MODELS", "RECORDS", "DOUBTS", "UNREADABLE")
    cells = [tuple(str(value) if value else "" for value in _cells(row)) for row in rows]
    click.echo("\n".join(aligned([head, *cells])))
    return 0


def _history_row(run: Run) -> dict[str, object]:
    models = [str(record.configuration["model"]) for record in run.records if "model" in record.configuration]
    return {
        "run": run.name,
        "suites": list(run.suites),
        "models": list(dict.fromkeys(models)),
        "records": len(run.records),
        "doubts": list(dict.fromkeys(doubt for record in run.records for doubt in record.doubts)),
        "unread_lines": run.unread_lines,
        "started_at": min(record.started_at for record in run.records).isoformat(),
    }


def _cells(row: dict[str, object]) -> tuple[object, ...]:
    suites, models, doubts = row["suites"], row["models"], row["doubts"]
    assert isinstance(suites, list)
    assert isinstance(models, list)
    assert isinstance(doubts, list)
    return row["run"], ", ".join(suites), ", ".join(models), row["records"], len(doubts), row["unread_lines"]


@click.command("compare")
@click.argument("first")
@click.argument("second")
@click.option(
    "--unlike", "allow_unlike", is_flag=True, help="Compare runs of unlike machines or installations."
)
@click.option("--across", multiple=True, metavar="SETTING",
              help="Let a setting differ, for instance model or threads.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def compare_command(
    source: SettingsSource,
    *,
    first: str,
    second: str,
    allow_unlike: bool,
    across: tuple[str, ...],
    as_json: bool,
) -> int:
    """Compare two runs: ratio of medians, second over first, with a 95 % interval.

    FIRST and SECOND are names of runs, the start or the end of one, `last`, `last-1`, or JSONL files. Only tests in
    the same configuration are paired. Runs whose machine, system, libraries, build or weights differ are refused
    without --unlike. The interval comes from resampling both runs (bootstrap), which knows the noise within them.
    Where three or more kept runs of one side measured the same, it is at least as wide as such runs differ by
    themselves. Where it holds 1, no difference is shown. "In doubt": other programs used the machine meanwhile.
    """
    from benchmarks.commands.running import store_of
    from benchmarks.pairing import compare_runs
    from benchmarks.tables import comparison_lines

    store = store_of(source.settings())
    runs = store.find(first), store.find(second)
    for warning in (warning for run in runs for warning in run.warnings()):
        click.echo(f"warning: {warning}", err=True)
    comparison = compare_runs(
        *runs, allow_unlike=allow_unlike, across=across, kept=list(store.runs(runs[0].suites))
    )
    if as_json:
        click.echo(json.dumps(asdict(comparison), indent=2, default=dict))
        return 0
    click.echo("\n".join(comparison_lines(comparison)))
    return 0


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN]…")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Default: by the file's ending, or Markdown."
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write here.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.pass_obj
def report_command(
    source: SettingsSource, *, runs: tuple[str, ...], form: str | None, output: Path | None, as_json: bool
) -> int:
    """Write runs (the newest when none is named) as Markdown, CSV, JSON, one HTML page, or llama-bench's JSON.

    The HTML page holds everything it shows and loads nothing from anywhere.

    \b
    appliance bench report -o report.html
    appliance bench report last-1 last --format csv
    """
    from benchmarks.commands.running import store_of
    from benchmarks.report import render

    chosen = "json" if as_json else form or (_SUFFIXES.get(output.suffix.lower()) if output else None)
    store = store_of(source.settings())
    text = render([store.find(name) for name in runs or ("last",)], chosen or "markdown")
    if output is None:
        click.echo(text, nl=False)
        return 0
    from appliance.core.errors import StorageError
    from benchmarks.peers.run import write_atomically

    try:
        write_atomically(output, text)
    except OSError as exc:
        raise StorageError(
            f"the report cannot be written to {output}: {exc.strerror}",
            hint="name a file in a folder that exists",
        ) from exc
    click.echo(f"{output} written", err=True)
    return 0
