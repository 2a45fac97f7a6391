"""`appliance audit`: read, verify and export the log of what was done."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_OK
from appliance.cli.invocation import Invocation
from appliance.cli.team_store import as_table, open_team_store, shown_time
from appliance.core.terminal_text import clean_for_terminal

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")


@click.group("audit", invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The newest so many.")
@_json_option
@click.pass_context
def audit_command(ctx: click.Context, *, limit: int, as_json: bool) -> None:
    """Show the newest entries of the audit log: who did what to what, never content."""
    if ctx.invoked_subcommand is not None:
        return
    invocation = ctx.obj
    assert isinstance(invocation, Invocation)
    with open_team_store(invocation) as store:
        last = store.audit.checkpoint().sequence
        entries = list(store.audit.entries(after=max(0, last - limit)))
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    rows = [
        (
            str(entry.sequence),
            shown_time(entry.at_s),
            entry.actor or "-",
            entry.action,
            clean_for_terminal(entry.subject),
        )
        for entry in entries
    ]
    click.echo(as_table([("NO", "WHEN", "WHO", "WHAT", "OF"), *rows]) if rows else "nothing was done yet")


@audit_command.command("verify")
@click.option("--checkpoint", "kept", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="A file of `appliance audit export` that was kept elsewhere.")  # fmt: skip
@_json_option
@click.pass_obj
def verify_command(invocation: Invocation, *, kept: Path | None, as_json: bool) -> int:
    """Compute the chain of hashes anew; the exit code is 1 when an entry was changed, moved or removed.

    Whoever can write the file can also write a whole new chain. Only a checkpoint that was kept elsewhere
    shows that: export one from time to time, and give it with --checkpoint.
    """
    from appliance.server.teams.audit import checkpoint_of

    checkpoint = checkpoint_of(kept.read_text(encoding="utf-8")) if kept is not None else None
    with open_team_store(invocation) as store:
        verification = store.audit.verify(checkpoint)
    if as_json:
        click.echo(json.dumps({**asdict(verification), "is_intact": verification.is_intact}, indent=2))
    else:
        for problem in verification.problems:
            click.echo(f"CHANGED: {problem}")
        click.echo(
            f"{verification.entries} entries, "
            + ("the chain is intact" if verification.is_intact else "the chain is NOT intact")
        )
    return EXIT_OK if verification.is_intact else EXIT_FAILURE


@audit_command.command("export")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of the screen."
)
@click.option("--checkpoint-only", is_flag=True, help="Only the end of the chain, to be kept elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="The lines are JSON in any case.")
@click.pass_obj
def export_command(
    invocation: Invocation,
    *,
    output: Path | None,
    checkpoint_only: bool,
    as_json: bool,  # noqa: ARG001  every command that prints takes it
) -> None:
    """Write every entry as a line of JSON; the last line is the checkpoint, the end of the chain."""
    with open_team_store(invocation) as store:
        checkpoint = store.audit.checkpoint()
        entries = [] if checkpoint_only else [
            entry for entry in store.audit.entries() if entry.sequence <= checkpoint.sequence
        ]  # fmt: skip
    lines = [json.dumps(asdict(entry)) for entry in entries]
    lines.append(json.dumps({"checkpoint": asdict(checkpoint)}))
    text = "\n".join(lines) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(f"{len(entries)} entries and the checkpoint are in {output}", err=True)
