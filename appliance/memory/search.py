"""Full-text search over the turns and titles of all chats of one owner."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from appliance.core.requests import LOCAL_OWNER
from appliance.memory.turns import Role
from appliance.memory.words import match_query, needle_pattern, without_diacritics
from appliance.storage.database import Database

_EXCERPT_CHARACTERS = 160
_CONTEXT_CHARACTERS = 50

_SEARCH = """
SELECT bm25(chat_words) AS score, chats.id, chats.title, chats.archived_at_s IS NOT NULL,
       turns.id, turns.role, turns.text, turns.created_at_s, turns.sequence
FROM chat_words JOIN turns ON turns.sequence = chat_words.rowid JOIN chats ON chats.id = turns.chat_id
WHERE chat_words MATCH ? AND turns.owner = ? AND chats.owner = ? AND chats.deleted_at_s IS NULL
UNION ALL
SELECT bm25(chat_words), chats.id, chats.title, chats.archived_at_s IS NOT NULL,
       '', '', chats.title, chats.created_at_s, chats.last_sequence
FROM chat_words JOIN chats ON chats.number = -chat_words.rowid
WHERE chat_words MATCH ? AND chats.owner = ? AND chats.deleted_at_s IS NULL
ORDER BY score, turns.sequence DESC LIMIT ? OFFSET ?
"""
_SHOWN = """
WITH RECURSIVE branch (id, parent_id) AS (
    SELECT turns.id, turns.parent_id FROM turns JOIN chats ON chats.active_turn_id = turns.id
    WHERE chats.id = ?
    UNION ALL
    SELECT turns.id, turns.parent_id FROM turns JOIN branch ON turns.id = branch.parent_id
)
SELECT id FROM branch
"""

_Row = tuple[float, str, str, int, str, Role | Literal[""], str, float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatHit:
    """One found turn, or a found title when `turn_id` is empty. `marks` are spans of the excerpt.

    `is_shown` is false for a turn on a branch that the chat does not show at present.
    """

    chat_id: str
    chat_title: str
    is_archived: bool
    turn_id: str
    role: Role | None
    excerpt: str
    marks: tuple[tuple[int, int], ...]
    created_at_s: float
    score: float
    is_shown: bool


def search_chats(
    database: Database, query: str, *, owner: str = LOCAL_OWNER, limit: int = 50, offset: int = 0
) -> list[ChatHit]:
    """Find turns and titles with every word of the query, best first; the trash is left out."""
    match = match_query(query)
    if not match:
        return []
    with database.read() as connection:
        rows: list[_Row] = connection.execute(
            _SEARCH, (match, owner, owner, match, owner, limit, offset)
        ).fetchall()
        shown = {chat_id: _shown_turns(connection, chat_id) for chat_id in {row[1] for row in rows}}
    return [_hit(row, query, shown[row[1]]) for row in rows]


def _shown_turns(connection: sqlite3.Connection, chat_id: str) -> set[str]:
    return {row[0] for row in connection.execute(_SHOWN, (chat_id,))}


def _hit(row: _Row, query: str, shown_turn_ids: set[str]) -> ChatHit:
    score, chat_id, title, is_archived, turn_id, role, text, created_at_s, _ = row
    excerpt, marks = _excerpt(text, query)
    return ChatHit(
        chat_id=chat_id,
        chat_title=title,
        is_archived=bool(is_archived),
        turn_id=turn_id,
        role=role or None,
        excerpt=excerpt,
        marks=marks,
        created_at_s=created_at_s,
        score=-score,
        is_shown=not turn_id or turn_id in shown_turn_ids,
    )


def _excerpt(text: str, query: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    pattern = needle_pattern(query)
    first = pattern.search(without_diacritics(text))
    start = max(0, first.start() - _CONTEXT_CHARACTERS) if first else 0
    end = min(len(text), start + _EXCERPT_CHARACTERS)
    body = " ".join(text[start:end].split())
    excerpt = ("…" if start else "") + body + ("…" if end < len(text) else "")
    return excerpt, tuple(found.span() for found in pattern.finditer(without_diacritics(excerpt)))
