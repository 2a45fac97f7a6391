"""Rows of the conversation tables as values; a partial answer's pieces are joined to its text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import Failure
from appliance.core.events import ModelIdentity, ReasoningDelta, TextDelta, ToolCallDelta
from appliance.core.messages import ToolCall
from appliance.core.usage import FinishReason, Timings, Usage
from appliance.memory.codec import from_json
from appliance.memory.turns import AnswerRecord, Chat, Role, Summary, Turn, TurnState
from appliance.storage.lock import is_alive

AnswerDelta = TextDelta | ReasoningDelta | ToolCallDelta

CHAT_COLUMNS = (
    "chats.id, chats.title, chats.system_text, chats.created_at_s, chats.updated_at_s, chats.is_pinned, "
    "chats.archived_at_s, chats.deleted_at_s, chats.active_turn_id, chats.source, "
    "(SELECT count(*) FROM turns WHERE turns.chat_id = chats.id)"
)
TURN_COLUMNS = (
    "turns.id, turns.chat_id, turns.parent_id, turns.sequence, turns.role, turns.state, turns.text, "
    "turns.created_at_s, turns.reasoning, turns.tool_calls_json, turns.tool_call_id, turns.tool_name, "
    "turns.writer, answers.model_json, answers.usage_json, answers.timings_json, "
    "answers.finish_reason, answers.failure_json"
)
TURNS = "turns LEFT JOIN answers ON answers.turn_id = turns.id"
SUMMARY_COLUMNS = "id, chat_id, last_turn_id, covered_turn_ids_json, text, made_by, created_at_s"

ChatRow = tuple[str, str, str, float, float, int, float | None, float | None, str | None, str, int]
SummaryRow = tuple[str, str, str, str, str, str, float]
_TurnRow = tuple[
    str, str, str | None, int, Role, TurnState, str, float, str, str, str, str, str,
    str | None, str | None, str | None, FinishReason | str | None, str | None,
]  # fmt: skip


def chat_of(row: ChatRow) -> Chat:
    """Build a chat from the columns of `CHAT_COLUMNS`."""
    return Chat(
        id=row[0],
        title=row[1],
        system_text=row[2],
        created_at_s=row[3],
        updated_at_s=row[4],
        is_pinned=bool(row[5]),
        is_archived=row[6] is not None,
        is_deleted=row[7] is not None,
        active_turn_id=row[8],
        source=row[9],
        turn_count=row[10],
    )


def summary_of(row: SummaryRow) -> Summary:
    """Build a summary from the columns of `SUMMARY_COLUMNS`."""
    return Summary(
        id=row[0],
        chat_id=row[1],
        last_turn_id=row[2],
        covered_turn_ids=from_json(row[3], tuple[str, ...], "summary"),
        text=row[4],
        made_by=row[5],
        created_at_s=row[6],
    )


def turns_of(connection: sqlite3.Connection, rows: Iterable[_TurnRow]) -> list[Turn]:
    """Build turns from the columns of `TURN_COLUMNS`."""
    return [_turn_of(connection, row) for row in rows]


def read_pieces(connection: sqlite3.Connection, turn_id: str) -> AnswerInProgress:
    """Collect what a partial answer has beyond the text of its row."""
    written = AnswerInProgress()
    pieces = connection.execute(
        "SELECT kind, body FROM answer_pieces WHERE turn_id = ? ORDER BY number", (turn_id,)
    )
    for kind, body in pieces:
        if kind == "text":
            written.add(TextDelta(text=body))
        elif kind == "reasoning":
            written.add(ReasoningDelta(text=body))
        elif kind == "tool_call":
            written.add(from_json(body, ToolCallDelta, "tool call"))
    return written


def _turn_of(connection: sqlite3.Connection, row: _TurnRow) -> Turn:
    state, text, reasoning = row[5], row[6], row[8]
    if state == "partial":
        pieces = read_pieces(connection, row[0])
        text, reasoning = text + pieces.text, reasoning + pieces.reasoning
        state = "partial" if is_alive(row[12]) else "stopped"
    return Turn(
        id=row[0],
        chat_id=row[1],
        parent_id=row[2],
        sequence=row[3],
        role=row[4],
        state=state,
        text=text,
        created_at_s=row[7],
        reasoning=reasoning,
        tool_calls=from_json(row[9], tuple[ToolCall, ...], "tool call") if row[9] != "[]" else (),
        tool_call_id=row[10],
        tool_name=row[11],
        answer=None if row[13] is None else _answer_of(row),
    )


def _answer_of(row: _TurnRow) -> AnswerRecord:
    _, _, _, _, _, _, _, _, _, _, _, _, _, model, usage, timings, finish_reason, failure = row
    return AnswerRecord(
        model=from_json(model, ModelIdentity, "model identity") if model else None,
        usage=from_json(usage, Usage, "usage") if usage else Usage(),
        timings=from_json(timings, Timings, "timing") if timings else Timings(),
        finish_reason=_FINISH_REASONS.get(finish_reason or ""),
        failure=from_json(failure, Failure, "failure") if failure else None,
    )


_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "cancelled": "cancelled",
    "error": "error",
}
