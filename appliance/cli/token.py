"""`appliance token`: show the token of this machine; make, list and revoke tokens of users."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from appliance.cli.invocation import Invocation
from appliance.cli.team_store import as_table, open_team_store, shown_time
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.server.teams.tokens import Scope, TokenRecord

_DAY_S = 86_400.0
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")


@click.group("token", invoke_without_command=True)
@_json_option
@click.pass_context
def token_command(ctx: click.Context, *, as_json: bool) -> None:
    """Show the token of this machine, or manage the tokens of users.

    The server wants a token with every request. The one of this machine is made at the first start and kept
    in a file that only you can read.
    """
    if ctx.invoked_subcommand is not None:
        return
    invocation = ctx.obj
    assert isinstance(invocation, Invocation)
    with open_team_store(invocation) as store:
        token = store.tokens.machine_token(store.settings.state_dir)
    click.echo(json.dumps({"token": token}) if as_json else token)


@token_command.command("create")
@click.argument("user")
@click.option("--label", default="", help="What the token is for.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(["chat", "documents", "metrics", "admin"]),
              help="What it may do; all of the user's role when left out.")  # fmt: skip
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), help="How long it is good; for ever without."
)
@_json_option
@click.pass_obj
def create_command(
    invocation: Invocation,
    *,
    user: str,
    label: str,
    scopes: tuple[Scope, ...],
    days: float | None,
    as_json: bool,
) -> None:
    """Make a token for USER and show it, once: only its hash is kept."""
    lifetime_s = None if days is None else days * _DAY_S
    with open_team_store(invocation) as store:
        made = store.tokens.create(
            store.users.get(user), actor=store.actor, label=label, scopes=scopes, lifetime_s=lifetime_s
        )
    if as_json:
        click.echo(json.dumps({"token": made.text, **_token_json(made.record)}, indent=2))
        return
    click.echo(made.text)
    click.echo(f"token {made.record.id} of {user}; it is not shown again", err=True)


@token_command.command("list")
@click.option("--user", help="Only the tokens of this user.")
@_json_option
@click.pass_obj
def list_command(invocation: Invocation, *, user: str | None, as_json: bool) -> None:
    """List tokens, newest first; the tokens themselves are not kept."""
    with open_team_store(invocation) as store:
        records = store.tokens.list_tokens(store.users.get(user) if user else None)
    if as_json:
        click.echo(json.dumps([_token_json(record) for record in records], indent=2))
        return
    heading = ("ID", "USER", "LABEL", "SCOPES", "CREATED", "EXPIRES", "REVOKED")
    click.echo(as_table([heading, *(_row(record) for record in records)]) if records else "no tokens yet")


@token_command.command("revoke")
@click.argument("token_id")
@_json_option
@click.pass_obj
def revoke_command(invocation: Invocation, *, token_id: str, as_json: bool) -> None:
    """Make a token useless from now on. TOKEN_ID stands in `appliance token list`."""
    with open_team_store(invocation) as store:
        store.tokens.revoke(token_id, actor=store.actor)
    click.echo(json.dumps({"revoked": token_id}) if as_json else f"revoked {token_id}")


def _token_json(record: TokenRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "user": record.user_name,
        "label": record.label,
        "scopes": sorted(record.scopes),
        "created_at_s": record.created_at_s,
        "expires_at_s": record.expires_at_s,
        "revoked_at_s": record.revoked_at_s,
    }


def _row(record: TokenRecord) -> tuple[str, ...]:
    return (
        record.id,
        record.user_name,
        clean_for_terminal(record.label) or "-",
        " ".join(sorted(record.scopes)),
        shown_time(record.created_at_s),
        shown_time(record.expires_at_s),
        "" if record.revoked_at_s is None else shown_time(record.revoked_at_s),
    )
