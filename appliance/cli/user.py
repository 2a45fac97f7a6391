"""`appliance user`: add, list and remove the people who may call the server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_OK
from appliance.cli.invocation import Invocation
from appliance.cli.team_store import TeamStore, as_table, open_team_store, shown_time

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
@click.option("--forget", "forgets", is_flag=True, help="Remove everything they stored, for good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json_option
@click.pass_obj
def remove_command(invocation: Invocation, *, name: str, forgets: bool, yes: bool, as_json: bool) -> int:
    """Remove a user and revoke their tokens. What they stored stays unless --forget is given.

    A server that runs on the same data folder drops what its models keep of them within a second.
    """
    with open_team_store(invocation) as store:
        user = store.users.get(name)
        if not yes:
            more = " and everything they stored" if forgets else ""
            click.confirm(f"This removes {user.name}{more} and revokes their tokens. Go on?", abort=True)
        store.users.remove(name, actor=store.actor)
        receipt = _forget(store, user) if forgets else None
    if as_json:
        click.echo(json.dumps({"removed": name, "forgotten": receipt}))
    else:
        click.echo(f"removed {name}" + _told(receipt))
    return EXIT_FAILURE if receipt and not receipt["is_clean"] else EXIT_OK


def _forget(store: TeamStore, user: User) -> dict[str, object]:
    """Forget everything of a user and return the receipt."""
    from appliance.app import open_library
    from appliance.server.forgetting import Forgetting, forget_receipt_json

    settings = store.settings
    has_index = bool(settings.index_uri) or (settings.data_dir / "index").exists()
    library = open_library(settings) if has_index else None
    try:
        receipt = Forgetting(settings, store.database, library).everything(user.id)
    finally:
        if library is not None:
            library.close()
    store.audit.append(store.actor, "forgotten.user", user.id, is_clean=receipt.is_clean)
    return forget_receipt_json(receipt)


def _told(receipt: dict[str, object] | None) -> str:
    if receipt is None:
        return "; what they stored is still here"
    return "; nothing of theirs remains" if receipt["is_clean"] else f"; this remains: {receipt['remains']}"


def _user_json(user: User) -> dict[str, object]:
    return {"id": user.id, "name": user.name, "role": user.role, "created_at_s": user.created_at_s}
