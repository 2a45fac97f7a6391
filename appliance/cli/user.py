"""`appliance user`: add, list and remove the people who may call the server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from appliance.cli.invocation import Invocation
from appliance.cli.team_store import as_table, open_team_store, shown_time

if TYPE_CHECKING:
    from appliance.server.teams.users import Role, User

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")


@click.group("user")
def user_command() -> None:
    """Manage the people who may call the server. Each one's chats and documents are theirs alone."""


@user_command.command("add")
@click.argument("name")
@click.option(
    "--admin", "role", flag_value="admin", help="May manage users, and see the audit log and metrics."
)
@_json_option
@click.pass_obj
def add_command(invocation: Invocation, *, name: str, role: Role | None = None, as_json: bool) -> None:
    """Add a user. A token for them comes from `appliance token create`."""
    with open_team_store(invocation) as store:
        user = store.users.add(name, role or "member", actor=store.actor)
    click.echo(json.dumps(_user_json(user), indent=2) if as_json else f"added {user.name} as {user.role}")


@user_command.command("list")
@_json_option
@click.pass_obj
def list_command(invocation: Invocation, *, as_json: bool) -> None:
    """List users in the order they were added."""
    with open_team_store(invocation) as store:
        store.users.ensure_local()
        users = store.users.list_users()
    if as_json:
        click.echo(json.dumps([_user_json(user) for user in users], indent=2))
        return
    rows = [(user.name, user.role, shown_time(user.created_at_s)) for user in users]
    click.echo(as_table([("NAME", "ROLE", "ADDED"), *rows]))


@user_command.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json_option
@click.pass_obj
def remove_command(invocation: Invocation, *, name: str, yes: bool, as_json: bool) -> None:
    """Remove a user and revoke their tokens. What they stored stays until it is forgotten."""
    with open_team_store(invocation) as store:
        user = store.users.get(name)
        if not yes:
            click.confirm(f"This removes {user.name} and revokes every token of theirs. Go on?", abort=True)
        store.users.remove(name, actor=store.actor)
    click.echo(json.dumps({"removed": name}) if as_json else f"removed {name}")


def _user_json(user: User) -> dict[str, object]:
    return {"id": user.id, "name": user.name, "role": user.role, "created_at_s": user.created_at_s}
