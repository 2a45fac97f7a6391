"""Long-term facts about a user, in the user's own words: proposed, confirmed, merged, corrected, expired."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
import uuid
from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.errors import InvalidRequestError
from appliance.core.ports import Embedder, Vector
from appliance.core.requests import LOCAL_OWNER
from appliance.memory.codec import storable
from appliance.memory.turns import Turn
from appliance.storage.database import Database

FactState = Literal["proposed", "confirmed"]

ExtractFacts = Callable[[Sequence[Turn]], Awaitable[Sequence[str]]]
"""Asks a model which phrases of the user's turns are worth remembering."""

MAX_FACT_CHARACTERS = 500
NEAR_DUPLICATE = 0.9
"""Cosine similarity from which two facts say the same thing and the newer wording replaces the older."""

_COLUMNS = (
    "id, text, state, source_chat_id, source_turn_id, is_corrected, created_at_s, updated_at_s, expires_at_s"
)
_FactRow = tuple[str, str, FactState, str, str, int, float, float, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing to remember. `is_corrected` tells that the words are no longer those of the source turn."""

    id: str
    text: str
    state: FactState
    source_chat_id: str
    source_turn_id: str
    is_corrected: bool
    created_at_s: float
    updated_at_s: float
    expires_at_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedFact:
    """A saved fact, and the text of the near-duplicate it was merged into, if there was one."""

    fact: Fact
    replaced_text: str = ""


class Facts:
    """The facts of one owner. The database must have the FACTS schema. Calls block, for they embed."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        *,
        owner: str = LOCAL_OWNER,
        now_s: Callable[[], float] = time.time,
        near_duplicate: float = NEAR_DUPLICATE,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._owner = owner
        self._now_s = now_s
        self._near_duplicate = near_duplicate

    def propose(self, turns: Sequence[Turn], phrases: Sequence[str]) -> list[Fact]:
        """Store as proposals the phrases that a user turn really says, in the words of that turn.

        What the model made up, what is known already and what was proposed before is left out.
        """
        quotes = [quote for phrase in phrases if (quote := quote_of_user(phrase, turns)) is not None]
        proposed: list[Fact] = []
        for text, turn in quotes:
            embedding = self._embed(text)
            with self._database.transaction() as connection:
                if self._nearest(connection, embedding, exact_text=text) is None:
                    proposed.append(self._insert(connection, text, turn, embedding))
        return proposed

    def add(self, text: str, *, expires_at_s: float | None = None) -> ConfirmedFact:
        """Save a fact the user states outright."""
        checked = _checked(text)
        embedding = self._embed(checked)
        with self._database.transaction() as connection:
            fact = self._insert(connection, checked, None, embedding)
            return self._confirm(connection, fact.id, expires_at_s, embedding)

    def confirm(self, fact_id: str, *, expires_at_s: float | None = None) -> ConfirmedFact:
        """Save a proposal; a confirmed near-duplicate takes over the newer words instead."""
        embedding = self._embed(self.get(fact_id).text)
        with self._database.transaction() as connection:
            return self._confirm(connection, fact_id, expires_at_s, embedding)

    def correct(self, fact_id: str, text: str) -> Fact:
        """Change the words of a fact; it then no longer quotes its source turn."""
        checked = _checked(text)
        embedding = self._embed(checked)
        self._update(
            fact_id,
            "text = ?, embedding = ?, embedder_digest = ?, is_corrected = 1",
            (checked, _packed(embedding), self._embedder.digest),
        )
        return self.get(fact_id)

    def set_expiry(self, fact_id: str, expires_at_s: float | None) -> Fact:
        """Say from which wall-clock time on a fact no longer holds."""
        self._update(fact_id, "expires_at_s = ?", (expires_at_s,))
        return self.get(fact_id)

    def delete(self, fact_id: str) -> None:
        """Remove a fact or a proposal."""
        with self._database.transaction() as connection:
            deleted = connection.execute(
                "DELETE FROM facts WHERE id = ? AND owner = ?", (fact_id, self._owner)
            )
            if deleted.rowcount == 0:
                raise _no_such_fact(fact_id)

    def delete_expired(self) -> int:
        """Remove the facts whose time is over; return how many."""
        with self._database.transaction() as connection:
            return connection.execute(
                "DELETE FROM facts WHERE owner = ? AND expires_at_s <= ?", (self._owner, self._now_s())
            ).rowcount

    def get(self, fact_id: str) -> Fact:
        """Return a fact.

        Raises:
            InvalidRequestError: this owner has no such fact.
        """
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM facts WHERE id = ? AND owner = ?",  # noqa: S608
                (fact_id, self._owner),
            ).fetchone()
        if row is None:
            raise _no_such_fact(fact_id)
        return _fact(row)

    def list_facts(self, state: FactState = "confirmed") -> list[Fact]:
        """Return the facts that hold now, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM facts WHERE owner = ? AND state = ? "  # noqa: S608
                "AND (expires_at_s IS NULL OR expires_at_s > ?) ORDER BY created_at_s, rowid",
                (self._owner, state, self._now_s()),
            ).fetchall()
        return [_fact(row) for row in rows]

    def relevant(self, question: str, *, limit: int = 8) -> list[Fact]:
        """Return the confirmed facts nearest to a question, nearest first."""
        facts = {fact.id: fact for fact in self.list_facts()}
        if not facts or not question.strip():
            return []
        wanted = self._embed(question)
        with self._database.read() as connection:
            rows = self._embeddings(connection)
        near = sorted(((_cosine(wanted, vector), fact_id) for fact_id, vector in rows), reverse=True)
        return [facts[fact_id] for _, fact_id in near if fact_id in facts][:limit]

    def embed_again(self) -> int:
        """Embed the facts that another embedder embedded; return how many."""
        with self._database.read() as connection:
            outdated = connection.execute(
                "SELECT id, text FROM facts WHERE owner = ? AND embedder_digest <> ?",
                (self._owner, self._embedder.digest),
            ).fetchall()
        for fact_id, text in outdated:
            vector = _packed(self._embed(text))
            self._update(fact_id, "embedding = ?, embedder_digest = ?", (vector, self._embedder.digest))
        return len(outdated)

    def _insert(
        self, connection: sqlite3.Connection, text: str, turn: Turn | None, embedding: Vector
    ) -> Fact:
        now_s = self._now_s()
        row: _FactRow = connection.execute(
            "INSERT INTO facts (id, owner, text, state, source_chat_id, source_turn_id, created_at_s, "  # noqa: S608
            "updated_at_s, embedder_digest, embedding) VALUES (?, ?, ?, 'proposed', ?, ?, ?, ?, ?, ?) "
            f"RETURNING {_COLUMNS}",
            (
                uuid.uuid4().hex, self._owner, text, turn.chat_id if turn else "", turn.id if turn else "",
                now_s, now_s, self._embedder.digest, _packed(embedding),
            ),
        ).fetchone()  # fmt: skip
        return _fact(row)

    def _confirm(
        self, connection: sqlite3.Connection, fact_id: str, expires_at_s: float | None, embedding: Vector
    ) -> ConfirmedFact:
        merged_into = self._nearest(connection, embedding, state="confirmed", except_id=fact_id)
        kept_id, replaced_text = fact_id, ""
        if merged_into is not None:
            kept_id = merged_into
            (replaced_text,) = connection.execute(
                "SELECT text FROM facts WHERE id = ?", (merged_into,)
            ).fetchone()
            connection.execute(
                "UPDATE facts SET (text, source_chat_id, source_turn_id, is_corrected, embedding, "
                "embedder_digest) = (SELECT text, source_chat_id, source_turn_id, is_corrected, embedding, "
                "embedder_digest FROM facts WHERE id = ?) WHERE id = ? AND owner = ?",
                (fact_id, merged_into, self._owner),
            )
            connection.execute("DELETE FROM facts WHERE id = ? AND owner = ?", (fact_id, self._owner))
        row = connection.execute(
            "UPDATE facts SET state = 'confirmed', expires_at_s = ?, updated_at_s = ? "  # noqa: S608
            f"WHERE id = ? AND owner = ? RETURNING {_COLUMNS}",
            (expires_at_s, self._now_s(), kept_id, self._owner),
        ).fetchone()
        if row is None:
            raise _no_such_fact(fact_id)
        return ConfirmedFact(fact=_fact(row), replaced_text=replaced_text)

    def _nearest(
        self,
        connection: sqlite3.Connection,
        embedding: Vector,
        *,
        state: FactState | None = None,
        except_id: str = "",
        exact_text: str = "",
    ) -> str | None:
        """Return the fact that says nearly the same; with `exact_text`, one that says the very same."""
        if exact_text:
            row = connection.execute(
                "SELECT id FROM facts WHERE owner = ? AND text = ? COLLATE NOCASE", (self._owner, exact_text)
            ).fetchone()
            return str(row[0]) if row else None
        near = [
            (similarity, fact_id)
            for fact_id, vector in self._embeddings(connection, state)
            if fact_id != except_id and (similarity := _cosine(embedding, vector)) >= self._near_duplicate
        ]
        return max(near)[1] if near else None

    def _embeddings(
        self, connection: sqlite3.Connection, state: FactState | None = None
    ) -> list[tuple[str, Vector]]:
        rows = connection.execute(
            "SELECT id, embedding FROM facts WHERE owner = ? AND embedder_digest = ? "
            "AND state = ifnull(?, state) AND (expires_at_s IS NULL OR expires_at_s > ?)",
            (self._owner, self._embedder.digest, state, self._now_s()),
        )
        return [(fact_id, list(array("f", packed))) for fact_id, packed in rows]

    def _embed(self, text: str) -> Vector:
        return self._embedder.embed([text])[0]

    def _update(self, fact_id: str, assignment: str, values: tuple[str | bytes | float | None, ...]) -> None:
        with self._database.transaction() as connection:
            changed = connection.execute(
                f"UPDATE facts SET {assignment}, updated_at_s = ? WHERE id = ? AND owner = ?",  # noqa: S608
                (*values, self._now_s(), fact_id, self._owner),
            )
            if changed.rowcount == 0:
                raise _no_such_fact(fact_id)


async def propose_facts(facts: Facts, turns: Sequence[Turn], extract: ExtractFacts) -> list[Fact]:
    """Let a model point out what to remember of a conversation, and keep what the user really said."""
    phrases = await extract([turn for turn in turns if turn.role == "user"])
    return await asyncio.to_thread(facts.propose, turns, phrases)


def quote_of_user(phrase: str, turns: Sequence[Turn]) -> tuple[str, Turn] | None:
    """Return the user's own words for a phrase, and the newest turn that has them; None if none has."""
    words = storable(phrase).split()
    if not words or len(phrase) > MAX_FACT_CHARACTERS:
        return None
    pattern = re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)", re.IGNORECASE)
    for turn in reversed(turns):
        found = pattern.search(turn.text) if turn.role == "user" else None
        if found:
            return " ".join(found[0].split()), turn
    return None


def _checked(text: str) -> str:
    cleaned = " ".join(storable(text).split())
    if not cleaned:
        raise InvalidRequestError("a fact needs some text")
    if len(cleaned) > MAX_FACT_CHARACTERS:
        raise InvalidRequestError(
            f"the fact has {len(cleaned)} characters; at most {MAX_FACT_CHARACTERS} are kept",
            hint="say it shorter, or in several facts",
        )
    return cleaned


def _no_such_fact(fact_id: str) -> InvalidRequestError:
    return InvalidRequestError(f"there is no fact {fact_id!r}")


def _fact(row: _FactRow) -> Fact:
    return Fact(
        id=row[0],
        text=row[1],
        state=row[2],
        source_chat_id=row[3],
        source_turn_id=row[4],
        is_corrected=bool(row[5]),
        created_at_s=row[6],
        updated_at_s=row[7],
        expires_at_s=row[8],
    )


def _packed(vector: Vector) -> bytes:
    return array("f", vector).tobytes()


def _cosine(one: Vector, other: Vector) -> float:
    # Vectors of the port are L2-normalised.
    return sum(left * right for left, right in zip(one, other, strict=True))
