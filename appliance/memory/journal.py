"""Writes an answer down while it is made, so that no word that was shown is ever lost.

Each delta is in the database before it is shown: that survives `kill -9`. At most every second or
every 32 tokens the disk is made to keep it: that survives a power cut.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import Failure, InvalidRequestError
from appliance.core.events import ModelIdentity, ReasoningDelta, TextDelta, ToolCallDelta
from appliance.core.messages import ToolCall
from appliance.core.ports import Clock
from appliance.core.usage import FinishReason, Timings, Usage
from appliance.memory.codec import from_json, storable, to_json
from appliance.memory.rows import AnswerDelta, read_pieces
from appliance.memory.turns import TurnState
from appliance.memory.words import indexed_text
from appliance.storage.database import Database
from appliance.storage.lock import is_alive

CHECKPOINT_INTERVAL_S = 1.0
CHECKPOINT_TOKENS = 32
# A token of an English or a Chinese text has three bytes or more nearly always.
_BYTES_PER_TOKEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEnd:
    """How an answer ended, as it is stored with it. A receipt that is not empty takes the place of the first."""

    state: TurnState
    finish_reason: FinishReason | None = None
    model: ModelIdentity | None = None
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    failure: Failure | None = None
    receipt_json: str = ""


class AnswerJournal:
    """The one writer of one partial answer. Its calls block; they come from one thread at a time."""

    def __init__(self, database: Database, *, owner: str, turn_id: str, clock: Clock) -> None:
        self.turn_id = turn_id
        self._database = database
        self._owner = owner
        self._clock = clock
        self._unsynced_tokens = 0
        self._oldest_unsynced_s: float | None = None

    @property
    def checkpoint_due_in_s(self) -> float | None:
        """Seconds until `checkpoint` must be called, or None while the disk has everything."""
        if self._oldest_unsynced_s is None:
            return None
        return max(0.0, self._oldest_unsynced_s + CHECKPOINT_INTERVAL_S - self._clock.now_s())

    def append(self, delta: AnswerDelta) -> None:
        """Store a delta; once this returns it may be shown.

        Raises:
            StorageError: it could not be stored.
            InvalidRequestError: the answer was deleted meanwhile.
        """
        kind, body = _piece(delta)
        if not body:
            return
        tokens = self._unsynced_tokens + max(1, len(body.encode()) // _BYTES_PER_TOKEN)
        due_in_s = self.checkpoint_due_in_s
        is_due = tokens >= CHECKPOINT_TOKENS or (due_in_s is not None and due_in_s <= 0)
        self._insert(kind, body, is_synced=is_due)
        if is_due:
            self._unsynced_tokens, self._oldest_unsynced_s = 0, None
            return
        self._unsynced_tokens = tokens
        if self._oldest_unsynced_s is None:
            self._oldest_unsynced_s = self._clock.now_s()

    def checkpoint(self) -> None:
        """Make the disk keep what was appended."""
        if self._oldest_unsynced_s is None:
            return
        self._insert("checkpoint", "", is_synced=True)
        self._unsynced_tokens, self._oldest_unsynced_s = 0, None

    def finish(self, end: AnswerEnd) -> None:
        """Store the whole answer and how it ended, in one transaction."""
        with self._database.transaction() as connection:
            end_answer(connection, self.turn_id, end, owner=self._owner)
        self._unsynced_tokens, self._oldest_unsynced_s = 0, None

    def _insert(self, kind: str, body: str, *, is_synced: bool) -> None:
        with self._database.transaction(is_synced=is_synced) as connection:
            inserted = connection.execute(
                "INSERT INTO answer_pieces (turn_id, kind, body) "
                "SELECT id, ?, ? FROM turns WHERE id = ? AND owner = ? AND state = 'partial'",
                (kind, body, self.turn_id, self._owner),
            )
            if inserted.rowcount == 0:
                raise _answer_gone()


def end_answer(connection: sqlite3.Connection, turn_id: str, end: AnswerEnd, *, owner: str) -> None:
    """Fold the pieces of a partial answer into its turn and mark how it ended."""
    pieces = read_pieces(connection, turn_id)
    state, calls_json = _calls(pieces, end)
    row = connection.execute(
        "UPDATE turns SET state = ?, text = text || ?, reasoning = reasoning || ?, tool_calls_json = ?, "
        "writer = '' WHERE id = ? AND owner = ? AND state = 'partial' RETURNING sequence, text",
        (state, pieces.text, pieces.reasoning, calls_json, turn_id, owner),
    ).fetchone()
    if row is None:
        raise _answer_gone()
    connection.execute("DELETE FROM answer_pieces WHERE turn_id = ?", (turn_id,))
    before = connection.execute(
        "SELECT usage_json, timings_json FROM answers WHERE turn_id = ?", (turn_id,)
    ).fetchone()
    usage, timings = _with_earlier_part(before, end)
    connection.execute(
        "UPDATE answers SET model_json = ifnull(nullif(?, ''), model_json), usage_json = ?, timings_json = ?, "
        "finish_reason = ?, failure_json = ?, receipt_json = ifnull(nullif(?, ''), receipt_json) WHERE turn_id = ?",
        (
            to_json(end.model, ModelIdentity) if end.model else "",
            to_json(usage, Usage),
            to_json(timings, Timings),
            end.finish_reason or "",
            to_json(end.failure, Failure) if end.failure else "",
            storable(end.receipt_json),
            turn_id,
        ),
    )
    index_turn(connection, row[0], row[1])


def _with_earlier_part(before: tuple[str, str] | None, end: AnswerEnd) -> tuple[Usage, Timings]:
    """Add tokens and times to those of the part of an answer that was written before it was gone on with."""
    usage_json, timings_json = before or ("", "")
    usage = from_json(usage_json, Usage, "usage") if usage_json else Usage()
    timings = from_json(timings_json, Timings, "timing") if timings_json else Timings()
    return usage.gone_on_with(end.usage), timings.gone_on_with(end.timings)


def index_turn(connection: sqlite3.Connection, sequence: int, text: str) -> None:
    """Let full-text search find a turn; an empty text is taken out of the index."""
    connection.execute("DELETE FROM chat_words WHERE rowid = ?", (sequence,))
    if text.strip():
        connection.execute(
            "INSERT INTO chat_words (rowid, body) VALUES (?, ?)", (sequence, indexed_text(text))
        )


def stop_unfinished_answers(database: Database) -> int:
    """Mark the answers of all owners whose writer died as stopped; return how many there were.

    Answers that another living process is writing are left alone.
    """
    with database.transaction() as connection:
        partial = connection.execute("SELECT id, owner, writer FROM turns WHERE state = 'partial'").fetchall()
        dead = [(turn_id, owner) for turn_id, owner, writer in partial if not is_alive(writer)]
        for turn_id, owner in dead:
            end_answer(connection, turn_id, AnswerEnd(state="stopped"), owner=owner)
    return len(dead)


def _calls(pieces: AnswerInProgress, end: AnswerEnd) -> tuple[TurnState, str]:
    if end.state != "done":
        return end.state, "[]"
    try:
        return end.state, to_json(pieces.message().tool_calls, tuple[ToolCall, ...])
    except InvalidRequestError:
        return "failed", "[]"


def _piece(delta: AnswerDelta) -> tuple[str, str]:
    match delta:
        case TextDelta():
            return "text", storable(delta.text)
        case ReasoningDelta():
            return "reasoning", storable(delta.text)
        case ToolCallDelta():
            return "tool_call", storable(to_json(delta, ToolCallDelta))


def _answer_gone() -> InvalidRequestError:
    return InvalidRequestError(
        "the chat or the answer was deleted or ended elsewhere while it was written",
        hint="ask again in another chat",
    )
