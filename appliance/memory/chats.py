"""Chats of one owner: create, list, rename, pin, archive, delete with undo."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable
from typing import Literal

from appliance.core.errors import InvalidRequestError
from appliance.core.requests import LOCAL_OWNER
from appliance.memory.codec import storable
from appliance.memory.rows import CHAT_COLUMNS, chat_of
from appliance.memory.turns import Chat
from appliance.memory.words import indexed_text
from appliance.storage.database import Database

Shelf = Literal["current", "archived", "trash", "all"]

UNTITLED = "New chat"
MAX_TITLE_CHARACTERS = 200
_SHORT_TITLE_CHARACTERS = 60
_MIN_ID_CHARACTERS = 4

_SHELVES: dict[Shelf, str] = {
    "current": "deleted_at_s IS NULL AND archived_at_s IS NULL",
    "archived": "deleted_at_s IS NULL AND archived_at_s IS NOT NULL",
    "trash": "deleted_at_s IS NOT NULL",
    "all": "deleted_at_s IS NULL",
}


class Chats:
    """The chats of one owner. A chat of somebody else does not exist here."""

    def __init__(
        self, database: Database, *, owner: str = LOCAL_OWNER, now_s: Callable[[], float] = time.time
    ) -> None:
        if not owner:
            raise InvalidRequestError("chats need an owner")
        self.owner = owner
        self._database = database
        self._now_s = now_s

    def create(self, *, title: str = "", system_text: str = "") -> Chat:
        """Start an empty chat; without a title it takes its name from the first question."""
        chat_id = uuid.uuid4().hex
        now_s = self._now_s()
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO chats (id, owner, title, is_titled, system_text, created_at_s, updated_at_s, "
                "last_sequence) VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(sequence), 0) FROM turns))",
                (
                    chat_id,
                    self.owner,
                    _checked_title(title) if title else UNTITLED,
                    bool(title),
                    storable(system_text),
                    now_s,
                    now_s,
                ),
            )
            if title:
                index_title(connection, chat_id, title)
        return self.get(chat_id)

    def get(self, chat_id: str) -> Chat:
        """Return a chat, deleted ones too.

        Raises:
            InvalidRequestError: this owner has no such chat.
        """
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {CHAT_COLUMNS} FROM chats WHERE id = ? AND owner = ?",  # noqa: S608
                (chat_id, self.owner),
            ).fetchone()
        if row is None:
            raise no_such_chat(chat_id)
        return chat_of(row)

    def resolve(self, reference: str) -> Chat:
        """Return the chat that an id, the beginning of one, or an exact title names.

        Raises:
            InvalidRequestError: none or several fit.
        """
        reference = reference.strip()
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {CHAT_COLUMNS} FROM chats WHERE owner = ? "  # noqa: S608
                "AND (substr(id, 1, length(?)) = ? AND length(?) >= ? OR title = ?)",
                (self.owner, reference, reference.lower(), reference, _MIN_ID_CHARACTERS, reference),
            ).fetchall()
        if len(rows) > 1:
            listed = ", ".join(f"{row[0][:8]} {row[1]!r}" for row in rows[:5])
            raise InvalidRequestError(
                f"{reference!r} fits {len(rows)} chats: {listed}", hint="give more characters of the id"
            )
        if not rows:
            raise no_such_chat(reference)
        return chat_of(rows[0])

    def list_chats(self, shelf: Shelf = "current", *, limit: int = 100, offset: int = 0) -> list[Chat]:
        """Return chats, pinned ones first, then by last use; `all` is everything but the trash."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {CHAT_COLUMNS} FROM chats WHERE owner = ? AND {_SHELVES[shelf]} "  # noqa: S608
                "ORDER BY is_pinned DESC, last_sequence DESC, number DESC LIMIT ? OFFSET ?",
                (self.owner, limit, offset),
            ).fetchall()
        return [chat_of(row) for row in rows]

    def rename(self, chat_id: str, title: str) -> Chat:
        """Give a chat a title of the user's."""
        checked = _checked_title(title)
        with self._database.transaction() as connection:
            self._set(connection, chat_id, "title = ?, is_titled = 1", checked)
            index_title(connection, chat_id, checked)
        return self.get(chat_id)

    def set_system_text(self, chat_id: str, system_text: str) -> Chat:
        """Set the instructions for the answers to come."""
        with self._database.transaction() as connection:
            self._set(connection, chat_id, "system_text = ?", storable(system_text))
        return self.get(chat_id)

    def pin(self, chat_id: str, *, is_pinned: bool = True) -> Chat:
        """Keep a chat at the top of the list, or let it go."""
        with self._database.transaction() as connection:
            self._set(connection, chat_id, "is_pinned = ?", is_pinned)
        return self.get(chat_id)

    def archive(self, chat_id: str, *, is_archived: bool = True) -> Chat:
        """Put a chat out of sight, or bring it back; search still finds it."""
        with self._database.transaction() as connection:
            self._set(connection, chat_id, "archived_at_s = ?", self._now_s() if is_archived else None)
        return self.get(chat_id)

    def delete(self, chat_id: str) -> Chat:
        """Move a chat to the trash, from which `restore` brings it back whole."""
        with self._database.transaction() as connection:
            self._set(connection, chat_id, "deleted_at_s = coalesce(deleted_at_s, ?)", self._now_s())
        return self.get(chat_id)

    def restore(self, chat_id: str) -> Chat:
        """Undo a deletion."""
        with self._database.transaction() as connection:
            self._set(connection, chat_id, "deleted_at_s = ?", None)
        return self.get(chat_id)

    def last_deleted(self) -> Chat | None:
        """Return the chat that `delete` moved to the trash last."""
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {CHAT_COLUMNS} FROM chats WHERE owner = ? AND deleted_at_s IS NOT NULL "  # noqa: S608
                "ORDER BY deleted_at_s DESC, number DESC LIMIT 1",
                (self.owner,),
            ).fetchone()
        return chat_of(row) if row else None

    def deleted_before(self, limit_s: float) -> list[str]:
        """Return the ids of chats in the trash since before a wall-clock time, for purging."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id FROM chats WHERE owner = ? AND deleted_at_s < ?", (self.owner, limit_s)
            ).fetchall()
        return [row[0] for row in rows]

    def _set(
        self, connection: sqlite3.Connection, chat_id: str, assignment: str, value: str | float | None
    ) -> None:
        changed = connection.execute(
            f"UPDATE chats SET {assignment} WHERE id = ? AND owner = ?",  # noqa: S608
            (value, chat_id, self.owner),
        )
        if changed.rowcount == 0:
            raise no_such_chat(chat_id)


def no_such_chat(reference: str) -> InvalidRequestError:
    """Return the one error for a chat that does not exist and for one of somebody else."""
    return InvalidRequestError(
        f"there is no chat {reference!r}",
        hint="`appliance chats list` shows them; the trash too with --trash",
    )


def title_from(text: str) -> str:
    """Return a title made of the first words of a question."""
    line = " ".join(text.split())
    if len(line) <= _SHORT_TITLE_CHARACTERS:
        return line or UNTITLED
    cut = line[: _SHORT_TITLE_CHARACTERS - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"


def index_title(connection: sqlite3.Connection, chat_id: str, title: str) -> None:
    """Let full-text search find a chat by its title."""
    (number,) = connection.execute("SELECT number FROM chats WHERE id = ?", (chat_id,)).fetchone()
    connection.execute("DELETE FROM chat_words WHERE rowid = ?", (-number,))
    connection.execute("INSERT INTO chat_words (rowid, body) VALUES (?, ?)", (-number, indexed_text(title)))


def _checked_title(title: str) -> str:
    cleaned = " ".join(storable(title).split())
    if not cleaned:
        raise InvalidRequestError("a title needs at least one visible character")
    if len(cleaned) > MAX_TITLE_CHARACTERS:
        raise InvalidRequestError(
            f"the title has {len(cleaned)} characters; at most {MAX_TITLE_CHARACTERS} are kept"
        )
    return cleaned
