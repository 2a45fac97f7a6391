"""Stored summaries: texts that stand for older turns of a branch, and the markers that say so."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from appliance.core.errors import InvalidRequestError
from appliance.core.requests import LOCAL_OWNER
from appliance.memory.codec import storable, to_json
from appliance.memory.rows import SUMMARY_COLUMNS, summary_of
from appliance.memory.turns import Summary, Turn
from appliance.storage.database import Database


class Summaries:
    """The summaries of one owner's chats."""

    def __init__(
        self, database: Database, *, owner: str = LOCAL_OWNER, now_s: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._owner = owner
        self._now_s = now_s

    def add(self, covered: Sequence[Turn], text: str, *, made_by: str) -> Summary:
        """Store a text that stands for turns of one branch; the last of them says where it ends."""
        if not covered or len({turn.chat_id for turn in covered}) != 1:
            raise InvalidRequestError("a summary covers at least one turn, all of one chat")
        summary = Summary(
            id=uuid.uuid4().hex,
            chat_id=covered[-1].chat_id,
            last_turn_id=covered[-1].id,
            covered_turn_ids=tuple(turn.id for turn in covered),
            text=storable(text),
            made_by=made_by,
            created_at_s=self._now_s(),
        )
        with self._database.transaction() as connection:
            inserted = connection.execute(
                "INSERT INTO summaries (id, owner, chat_id, last_turn_id, covered_turn_ids_json, text, "
                "made_by, created_at_s) SELECT ?, owner, chat_id, id, ?, ?, ?, ? FROM turns "
                "WHERE id = ? AND owner = ?",
                (
                    summary.id,
                    to_json(summary.covered_turn_ids, tuple[str, ...]),
                    summary.text,
                    made_by,
                    summary.created_at_s,
                    summary.last_turn_id,
                    self._owner,
                ),
            )
            if inserted.rowcount == 0:
                raise InvalidRequestError(f"there is no turn {summary.last_turn_id!r}")
        return summary

    def of_chat(self, chat_id: str) -> list[Summary]:
        """Return the summaries of a chat, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {SUMMARY_COLUMNS} FROM summaries WHERE chat_id = ? AND owner = ? ORDER BY number",  # noqa: S608
                (chat_id, self._owner),
            ).fetchall()
        return [summary_of(row) for row in rows]

    def for_branch(self, branch: Sequence[Turn]) -> Summary | None:
        """Return the summary that covers most of a branch; one made of turns of another never fits."""
        if not branch:
            return None
        place = {turn.id: position for position, turn in enumerate(branch)}
        fitting = [
            summary
            for summary in self.of_chat(branch[0].chat_id)
            if all(turn_id in place for turn_id in summary.covered_turn_ids)
        ]
        return max(fitting, key=lambda summary: place[summary.last_turn_id], default=None)
