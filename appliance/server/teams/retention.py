"""Rules of retention: how many days conversations and documents of a user, or of everybody, are kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from appliance.core.errors import InvalidRequestError
from appliance.server.teams.audit import append_entry
from appliance.storage.database import Database

Kept = Literal["conversations", "documents"]
EVERYBODY = ""
MAX_DAYS = 36_500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """What is kept for how long; an empty `user_id` means everybody without a rule of their own."""

    user_id: str
    what: Kept
    days: float


class RetentionRules:
    """Sets and reads the rules; each change is in the audit log. The database must have the TEAMS schema."""

    def __init__(self, database: Database, *, now_s: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now_s = now_s

    def set(self, rule: RetentionRule, *, actor: str) -> None:
        """Set a rule in place of the one for the same things.

        Raises:
            InvalidRequestError: the days are not above 0, or beyond a century.
        """
        if not 0 < rule.days <= MAX_DAYS:
            raise InvalidRequestError(f"things are kept for more than 0 and at most {MAX_DAYS:g} days")
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO retention_rules (user_id, what, days) VALUES (?, ?, ?) "
                "ON CONFLICT (user_id, what) DO UPDATE SET days = excluded.days",
                (rule.user_id, rule.what, rule.days),
            )
            details = {"what": rule.what, "days": rule.days}
            append_entry(connection, self._now_s(), actor, "retention.set", rule.user_id, details)

    def remove(self, user_id: str, what: Kept, *, actor: str) -> None:
        """Take a rule away.

        Raises:
            InvalidRequestError: there is none.
        """
        with self._database.transaction() as connection:
            removed = connection.execute(
                "DELETE FROM retention_rules WHERE user_id = ? AND what = ?", (user_id, what)
            )
            if removed.rowcount == 0:
                raise InvalidRequestError(f"there is no rule for the {what} of {user_id or 'everybody'}")
            append_entry(connection, self._now_s(), actor, "retention.removed", user_id, {"what": what})

    def rules(self) -> list[RetentionRule]:
        """Return every rule."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT user_id, what, days FROM retention_rules ORDER BY user_id, what"
            ).fetchall()
        return [RetentionRule(user_id=row[0], what=row[1], days=row[2]) for row in rows]

    def days_for(self, user_id: str, what: Kept) -> float | None:
        """Return how long things of a user are kept, or nothing when it is for ever."""
        found = {(rule.user_id, rule.what): rule.days for rule in self.rules()}
        return found.get((user_id, what), found.get((EVERYBODY, what)))
