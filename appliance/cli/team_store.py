"""Opens the users, tokens and audit log of the data folder for one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from appliance.cli.invocation import Invocation

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.server.teams.audit import AuditLog
    from appliance.server.teams.tokens import Tokens
    from appliance.server.teams.users import Users
    from appliance.storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamStore:
    """Who may call the server, and what was done. `actor` names the command line in the audit log."""

    settings: Settings
    database: Database
    users: Users
    tokens: Tokens
    audit: AuditLog
    actor: str


@contextmanager
def open_team_store(invocation: Invocation) -> Iterator[TeamStore]:
    """Open the store; a running server sees the changes at once."""
    from appliance.memory.schema import CONVERSATIONS, FACTS
    from appliance.server.teams.audit import COMMAND_LINE, AuditLog
    from appliance.server.teams.tables import TEAMS
    from appliance.server.teams.tokens import Tokens
    from appliance.server.teams.users import Users
    from appliance.storage.database import STORE_FILE, Database

    settings = invocation.settings()
    database = Database(settings.data_dir / STORE_FILE, [CONVERSATIONS, FACTS, TEAMS])
    try:
        yield TeamStore(
            settings=settings,
            database=database,
            users=Users(database),
            tokens=Tokens(database),
            audit=AuditLog(database),
            actor=COMMAND_LINE,
        )
    finally:
        database.close()


def shown_time(at_s: float | None) -> str:
    """Return a wall-clock time as tables show it."""
    return "never" if at_s is None else f"{datetime.fromtimestamp(at_s, UTC).astimezone():%Y-%m-%d %H:%M}"


def as_table(rows: list[tuple[str, ...]]) -> str:
    """Return rows with their columns under each other; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
