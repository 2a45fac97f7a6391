"""The users of an appliance. A user's id is the owner of everything that user stores."""

from __future__ import annotations

import re
import sqlite3
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from appliance.core.errors import InvalidRequestError
from appliance.core.requests import LOCAL_OWNER
from appliance.server.teams.audit import append_entry
from appliance.storage.database import Database

Role = Literal["member", "admin"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_COLUMNS = "id, name, role, created_at_s, removed_at_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who may hold tokens."""

    id: str
    name: str
    role: Role
    created_at_s: float
    removed_at_s: float | None = None


class Users:
    """Adds, lists and removes users; each change is in the audit log. The database has the TEAMS schema."""

    def __init__(self, database: Database, *, now_s: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now_s = now_s

    def ensure_local(self) -> User:
        """Return the user of this machine's command line, made at the first call; it is an administrator."""
        found = self._find("id = ?", LOCAL_OWNER)
        if found is not None:
            return found
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO users (id, name, role, created_at_s) VALUES (?, ?, 'admin', ?) "
                "ON CONFLICT (id) DO NOTHING",
                (LOCAL_OWNER, LOCAL_OWNER, self._now_s()),
            )
        return self.get(LOCAL_OWNER)

    def add(self, name: str, role: Role = "member", *, actor: str) -> User:
        """Add a user.

        Raises:
            InvalidRequestError: the name cannot be used or is taken.
        """
        if not _NAME.fullmatch(name):
            raise InvalidRequestError(
                f"{name!r} cannot be a user name",
                hint="1 to 64 characters: small letters, digits, and . _ @ - behind the first",
            )
        user_id = f"user-{uuid.uuid4().hex}"
        with self._database.transaction() as connection:
            try:
                connection.execute(
                    "INSERT INTO users (id, name, role, created_at_s) VALUES (?, ?, ?, ?)",
                    (user_id, name, role, self._now_s()),
                )
            except sqlite3.IntegrityError as exc:
                raise InvalidRequestError(f"there is a user {name!r} already") from exc
            append_entry(
                connection, self._now_s(), actor, "user.added", user_id, {"name": name, "role": role}
            )
        return self.get(name)

    def get(self, name: str) -> User:
        """Return a user by name.

        Raises:
            InvalidRequestError: there is none.
        """
        found = self._find("name = ? AND removed_at_s IS NULL", name)
        if found is None:
            raise InvalidRequestError(f"there is no user {name!r}", hint="`appliance user list` shows them")
        return found

    def by_id(self, user_id: str) -> User | None:
        """Return a user who was not removed."""
        return self._find("id = ? AND removed_at_s IS NULL", user_id)

    def list_users(self) -> list[User]:
        """Return the users in the order they were added."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM users WHERE removed_at_s IS NULL ORDER BY number"  # noqa: S608
            ).fetchall()
        return [_user(row) for row in rows]

    def remove(self, name: str, *, actor: str) -> User:
        """Remove a user and revoke every token of theirs; what they stored stays until it is forgotten.

        Raises:
            InvalidRequestError: there is no such user, or it is the one of this machine.
        """
        user = self.get(name)
        if user.id == LOCAL_OWNER:
            raise InvalidRequestError("the user of this machine cannot be removed")
        with self._database.transaction() as connection:
            now_s = self._now_s()
            connection.execute("UPDATE users SET removed_at_s = ? WHERE id = ?", (now_s, user.id))
            connection.execute(
                "UPDATE tokens SET revoked_at_s = ? WHERE user_id = ? AND revoked_at_s IS NULL",
                (now_s, user.id),
            )
            append_entry(connection, now_s, actor, "user.removed", user.id, {"name": name})
        return user

    def _find(self, condition: str, value: str) -> User | None:
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM users WHERE {condition}",  # noqa: S608
                (value,),
            ).fetchone()
        return _user(row) if row else None


def _user(row: tuple[str, str, Role, float, float | None]) -> User:
    return User(id=row[0], name=row[1], role=row[2], created_at_s=row[3], removed_at_s=row[4])
