"""Forgets in chats and facts: whole chats, or the turns that mention a subject or were made from a document.

A forgotten turn inside a chat keeps its place in the tree, empty and marked, so that the rest stays
readable. With a question go its answers, which may speak of the subject without its name. Requests and
receipts of later answers on the same branches go too, for they held the forgotten words.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from appliance.core.forgetting import (
    ForgetChat,
    ForgetDocument,
    ForgetHit,
    ForgetProbe,
    ForgetReport,
    ForgetSubject,
    ForgetTarget,
)
from appliance.core.requests import LOCAL_OWNER
from appliance.memory.chats import UNTITLED
from appliance.memory.mentions import (
    json_has_string,
    json_mentions,
    json_strings,
    mentions,
    phrase_pattern,
    plain,
)
from appliance.memory.words import indexed_text
from appliance.storage.database import Database

_Kind = Literal["row", "other_owner", "bytes"]

_MIN_NEEDLE_CHARACTERS = 12
_MAX_NEEDLE_CHARACTERS = 80
_MAX_NEEDLES = 16

_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT ? UNION SELECT turns.id FROM turns JOIN below ON turns.parent_id = below.id
) SELECT id FROM below
"""

_TEXT_COLUMNS = (
    ("chats", "title"),
    ("chats", "system_text"),
    ("turns", "text"),
    ("turns", "reasoning"),
    ("turns", "tool_calls_json"),
    ("answers", "request_json"),
    ("answers", "receipt_json"),
    ("answers", "failure_json"),
    ("answer_pieces", "body"),
    ("summaries", "text"),
    ("facts", "text"),
)


@dataclass(slots=True)
class _Removed:
    counts: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def add(self, what: str, texts: Sequence[str]) -> None:
        if texts:
            self.counts[what] = self.counts.get(what, 0) + len(texts)
            self.texts += texts


class ForgettableChats:
    """The store of chats and facts as a `Forgettable`; the bytes of its file are `StoreFile`'s."""

    name = "chats and facts"

    def __init__(self, database: Database, *, owner: str = LOCAL_OWNER) -> None:
        self._database = database
        self._owner = owner

    def preview(self, target: ForgetTarget) -> dict[str, int]:
        """Count what `forget` would remove, and remove nothing."""
        try:
            with self._database.transaction() as connection:
                raise _PreviewOnly(_remove(connection, target).counts)
        except _PreviewOnly as preview:
            return preview.counts

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove what belongs to the target, in one transaction."""
        with self._database.transaction() as connection:
            removed = _remove(connection, target)
        needles = [target.phrase] if isinstance(target, ForgetSubject) else needles_of(removed.texts)
        return ForgetReport(store=self.name, removed=removed.counts, needles=tuple(needles))

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        """Search every text column, and the words of the full-text index that no row has."""
        hits: list[ForgetHit] = []
        with self._database.read() as connection:
            for table, column in _TEXT_COLUMNS:
                for kind, held in self._held(connection, table, column).items():
                    found = [needle for needle in needles if _holds(held, needle)]
                    hits += [self._hit(f"{table}.{column}", needle, kind) for needle in found]
        hits += self._words_without_rows(needles)
        checked = (*(f"{table}.{column}" for table, column in _TEXT_COLUMNS), "words of the full-text index")
        return ForgetProbe(store=self.name, checked=checked, hits=tuple(hits))

    def _words_without_rows(self, needles: Sequence[str]) -> list[ForgetHit]:
        hits: list[ForgetHit] = []
        with self._database.transaction() as connection:
            connection.execute(
                "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chat_vocabulary "
                "USING fts5vocab ('main', 'chat_words', 'row')"
            )
            words = {row[0] for row in connection.execute("SELECT term FROM temp.chat_vocabulary")}
            for needle in needles:
                for word in sorted(set(indexed_text(needle).split()) & words):
                    query = '"' + word.replace('"', "") + '"'
                    held = connection.execute(
                        "SELECT 1 FROM chat_words WHERE chat_words MATCH ? LIMIT 1", (query,)
                    ).fetchone()
                    if held is None:
                        hits.append(self._hit("words of the full-text index", needle, "bytes"))
        return hits

    def _held(self, connection: sqlite3.Connection, table: str, column: str) -> dict[_Kind, str]:
        source = "answer_pieces JOIN turns ON turns.id = turn_id" if table == "answer_pieces" else table
        rows = connection.execute(f"SELECT owner, {column} FROM {source}").fetchall()  # noqa: S608
        held: dict[_Kind, list[str]] = {"row": [], "other_owner": []}
        for owner, text in rows:
            held["row" if owner == self._owner else "other_owner"].append(_searchable(text, column))
        return {kind: " ".join(plain("\n".join(texts)).split()) for kind, texts in held.items()}

    def _hit(self, place: str, needle: str, kind: _Kind) -> ForgetHit:
        return ForgetHit(store=self.name, place=place, needle=needle, kind=kind)


class _PreviewOnly(Exception):  # noqa: N818 - it rolls a transaction back and is no error
    def __init__(self, counts: dict[str, int]) -> None:
        super().__init__()
        self.counts = counts


def _remove(connection: sqlite3.Connection, target: ForgetTarget) -> _Removed:
    removed = _Removed()
    match target:
        case ForgetChat():
            _forget_chat(connection, target, removed)
        case ForgetSubject():
            _forget_subject(connection, target, removed)
        case ForgetDocument():
            _forget_document(connection, target, removed)
        case _:
            assert_never(target)
    return removed


def _holds(held: str, needle: str) -> bool:
    # A plain search first: it is many times faster than the pattern, which only judges the borders.
    return " ".join(plain(needle).split()) in held and phrase_pattern(needle).search(held) is not None


def _searchable(text: str, column: str) -> str:
    if not column.endswith("_json") or not text:
        return text
    try:
        return "\n".join(json_strings(json.loads(text)))
    except ValueError:
        return text


def _forget_chat(connection: sqlite3.Connection, target: ForgetChat, removed: _Removed) -> None:
    row = connection.execute(
        "SELECT number, title, system_text FROM chats WHERE id = ? AND owner = ?",
        (target.chat_id, target.owner),
    ).fetchone()
    if row is None:
        return
    number, title, system_text = row
    turns = connection.execute(
        "SELECT sequence, text, reasoning FROM turns WHERE chat_id = ?", (target.chat_id,)
    ).fetchall()
    pieces = connection.execute(
        "SELECT body FROM answer_pieces WHERE turn_id IN (SELECT id FROM turns WHERE chat_id = ?)",
        (target.chat_id,),
    ).fetchall()
    removed.add("chats", [f"{title}\n{system_text}"])
    removed.add("turns", [f"{text}\n{reasoning}" for _, text, reasoning in turns])
    removed.texts.append("".join(piece for (piece,) in pieces))
    connection.executemany(
        "DELETE FROM chat_words WHERE rowid = ?", [(-number,), *((sequence,) for sequence, _, _ in turns)]
    )
    summaries = _delete(connection, "summaries", "chat_id = ?", target.chat_id)
    removed.add("summaries", summaries)
    removed.add("facts", _delete(connection, "facts", "source_chat_id = ?", target.chat_id))
    connection.execute("DELETE FROM chats WHERE id = ?", (target.chat_id,))


def _forget_subject(connection: sqlite3.Connection, target: ForgetSubject, removed: _Removed) -> None:
    phrase, owner = target.phrase, target.owner
    turns = connection.execute(
        "SELECT id, text, reasoning, tool_calls_json, tool_name FROM turns WHERE owner = ?", (owner,)
    ).fetchall()
    named = {
        turn_id
        for turn_id, text, reasoning, calls, tool_name in turns
        if mentions(f"{text}\n{reasoning}\n{tool_name}", phrase) or json_mentions(calls, phrase)
    }
    pieces = connection.execute(
        "SELECT turn_id, group_concat(body, '') FROM "
        "(SELECT turn_id, body FROM answer_pieces ORDER BY number) GROUP BY turn_id"
    ).fetchall()
    named |= {turn_id for turn_id, body in pieces if mentions(body, phrase)}
    _forget_turns(connection, named | _answers_to_questions(connection, named), owner, removed)
    _clear_records(connection, owner, removed, lambda text: json_mentions(text, phrase))
    _forget_chat_texts(connection, target, removed)
    for table in ("summaries", "facts"):
        rows = connection.execute(f"SELECT id, text FROM {table} WHERE owner = ?", (owner,)).fetchall()  # noqa: S608
        for row_id, text in rows:
            if mentions(text, phrase):
                removed.add(table, _delete(connection, table, "id = ?", row_id))


def _forget_document(connection: sqlite3.Connection, target: ForgetDocument, removed: _Removed) -> None:
    rows = connection.execute(
        "SELECT turn_id, request_json, receipt_json FROM answers WHERE owner = ?", (target.owner,)
    ).fetchall()
    made_from = {
        turn_id
        for turn_id, request_json, receipt_json in rows
        if json_has_string(request_json, target.document_id)
        or json_has_string(receipt_json, target.document_id)
        or target.document_id in request_json
    }
    _forget_turns(connection, made_from, target.owner, removed)


def _forget_turns(
    connection: sqlite3.Connection, turn_ids: Iterable[str], owner: str, removed: _Removed
) -> None:
    """Empty turns in place, with all that was derived from them."""
    for turn_id in sorted(turn_ids):
        row = connection.execute(
            "SELECT sequence, text, reasoning, chat_id FROM turns WHERE id = ? AND owner = ?",
            (turn_id, owner),
        ).fetchone()
        if row is None:
            continue
        sequence, text, reasoning, chat_id = row
        removed.add("turns", [f"{text}\n{reasoning}"])
        connection.execute("DELETE FROM chat_words WHERE rowid = ?", (sequence,))
        connection.execute("DELETE FROM answer_pieces WHERE turn_id = ?", (turn_id,))
        connection.execute(
            "UPDATE turns SET state = 'forgotten', text = '', reasoning = '', tool_calls_json = '[]', "
            "tool_name = '', tool_call_id = '', writer = '' WHERE id = ?",
            (turn_id,),
        )
        below = [each[0] for each in connection.execute(_BELOW, (turn_id,))]
        _clear_answers(connection, below, removed)
        for summary_id, covered in connection.execute(
            "SELECT id, covered_turn_ids_json FROM summaries WHERE chat_id = ?", (chat_id,)
        ).fetchall():
            if json_has_string(covered, turn_id):
                removed.add("summaries", _delete(connection, "summaries", "id = ?", summary_id))
        removed.add("facts", _delete(connection, "facts", "source_turn_id = ?", turn_id))
        _untitle(connection, chat_id, turn_id)


def _untitle(connection: sqlite3.Connection, chat_id: str, turn_id: str) -> None:
    """Take away a title that was made of the forgotten first question."""
    number, first_id = connection.execute(
        "SELECT chats.number, (SELECT id FROM turns WHERE chat_id = chats.id ORDER BY sequence LIMIT 1) "
        "FROM chats WHERE id = ?",
        (chat_id,),
    ).fetchone()
    if first_id == turn_id:
        _clear_title(connection, number)


def _clear_title(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("UPDATE chats SET title = ?, is_titled = 0 WHERE number = ?", (UNTITLED, number))
    connection.execute("DELETE FROM chat_words WHERE rowid = ?", (-number,))


def _answers_to_questions(connection: sqlite3.Connection, turn_ids: set[str]) -> set[str]:
    """Return the answers and tool results directly below the questions among the turns."""
    found: set[str] = set()
    waiting = list(turn_ids)
    while waiting:
        rows = connection.execute(
            "SELECT id FROM turns WHERE parent_id = ? AND role <> 'user'", (waiting.pop(),)
        ).fetchall()
        new = {row[0] for row in rows} - found
        found |= new
        waiting += new
    return found


def _clear_answers(connection: sqlite3.Connection, turn_ids: Iterable[str], removed: _Removed) -> None:
    for turn_id in turn_ids:
        cleared = connection.execute(
            "UPDATE answers SET request_json = '', receipt_json = '', failure_json = '' "
            "WHERE turn_id = ? AND request_json || receipt_json || failure_json <> ''",
            (turn_id,),
        )
        if cleared.rowcount:
            removed.counts["requests and receipts"] = removed.counts.get("requests and receipts", 0) + 1


def _clear_records(
    connection: sqlite3.Connection, owner: str, removed: _Removed, has_it: Callable[[str], bool]
) -> None:
    rows = connection.execute(
        "SELECT turn_id, request_json, receipt_json, failure_json FROM answers WHERE owner = ?", (owner,)
    ).fetchall()
    named = [turn_id for turn_id, *texts in rows if any(has_it(text) for text in texts)]
    _clear_answers(connection, named, removed)


def _forget_chat_texts(connection: sqlite3.Connection, target: ForgetSubject, removed: _Removed) -> None:
    rows = connection.execute(
        "SELECT number, title, system_text FROM chats WHERE owner = ?", (target.owner,)
    ).fetchall()
    for number, title, system_text in rows:
        if mentions(title, target.phrase):
            removed.add("titles", [title])
            _clear_title(connection, number)
        if mentions(system_text, target.phrase):
            removed.add("chat instructions", [system_text])
            connection.execute("UPDATE chats SET system_text = '' WHERE number = ?", (number,))


def _delete(connection: sqlite3.Connection, table: str, condition: str, value: str) -> list[str]:
    rows = connection.execute(f"DELETE FROM {table} WHERE {condition} RETURNING text", (value,))  # noqa: S608
    return [row[0] for row in rows.fetchall()]


def needles_of(texts: Sequence[str]) -> list[str]:
    """Return lines of removed texts that are long enough to be told apart from chance."""
    lines = dict.fromkeys(
        _cut(line.strip())
        for text in texts
        for line in text.splitlines()
        if len(line.strip()) >= _MIN_NEEDLE_CHARACTERS
    )
    # Each needle costs a pass over every file in each of its forms; an even sample finds a leak as well.
    step = max(1, -(-len(lines) // _MAX_NEEDLES))
    return list(lines)[::step]


def _cut(line: str) -> str:
    """Shorten a long line at a space, so that no word is halved."""
    if len(line) <= _MAX_NEEDLE_CHARACTERS:
        return line
    return line[:_MAX_NEEDLE_CHARACTERS].rpartition(" ")[0] or line[:_MAX_NEEDLE_CHARACTERS]
