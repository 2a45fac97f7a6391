"""Takes exported chats into the store: own format, OpenAI, Open WebUI; each chat whole or not at all."""

from __future__ import annotations

import dataclasses
import io
import json
import sqlite3
import uuid
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import Failure, InvalidRequestError
from appliance.core.events import ModelIdentity
from appliance.core.messages import ToolCall
from appliance.core.usage import Timings, Usage
from appliance.memory.chats import MAX_TITLE_CHARACTERS, UNTITLED, index_title, title_from
from appliance.memory.codec import storable, to_json
from appliance.memory.conversations import Conversations
from appliance.memory.foreign import read_open_webui, read_openai
from appliance.memory.journal import index_turn
from appliance.memory.portable import PortableChat, PortableTurn, read_own_export
from appliance.memory.sent import encode_request
from appliance.memory.turns import AnswerRecord, Turn

MAX_EXPORT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedChat:
    """What became of one chat. `skipped` is empty, or says why it was not imported."""

    title: str
    chat_id: str
    turn_count: int
    remarks: tuple[str, ...] = ()
    skipped: str = ""


def import_file(conversations: Conversations, path: Path) -> list[ImportedChat]:
    """Import an export: JSON, or the zip that OpenAI sends.

    Raises:
        InvalidRequestError: the file cannot be read or is no known export; nothing was imported.
    """
    try:
        if path.stat().st_size > MAX_EXPORT_BYTES:
            raise InvalidRequestError(f"{path} is larger than {MAX_EXPORT_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as exc:
        raise InvalidRequestError(f"{path} cannot be read: {exc.strerror}") from exc
    return import_chats(conversations, read_export(data))


def read_export(data: bytes) -> list[PortableChat]:
    """Recognise an export by its content and read its chats.

    Raises:
        InvalidRequestError: it is no known export.
    """
    try:
        text = _json_text(data)
        content: object = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as exc:
        raise InvalidRequestError(
            f"this is no export that is known here: {exc}", hint=_KNOWN_FORMATS
        ) from exc
    if isinstance(content, dict) and content.get("format") == "appliance-chats":
        return list(read_own_export(text))
    entries = content if isinstance(content, list) else [content]
    if all(isinstance(entry, dict) and "mapping" in entry for entry in entries):
        return list(read_openai(entries))
    if all(isinstance(entry, dict) and "chat" in entry for entry in entries):
        return list(read_open_webui(entries))
    raise InvalidRequestError("this is no export that is known here", hint=_KNOWN_FORMATS)


def import_chats(conversations: Conversations, chats: Iterable[PortableChat]) -> list[ImportedChat]:
    """Store chats that are not here yet; importing the same export twice changes nothing."""
    return [_import_chat(conversations, chat) for chat in chats]


_KNOWN_FORMATS = (
    "give a file of `appliance chats export --format json`, OpenAI's conversations.json or the zip with it, "
    "or the chat export of Open WebUI"
)


def _json_text(data: bytes) -> str:
    if not data.startswith(b"PK\x03\x04"):
        return data.decode("utf-8-sig")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if Path(name).name == "conversations.json"]
            if not names:
                raise InvalidRequestError("the zip holds no conversations.json", hint=_KNOWN_FORMATS)
            if archive.getinfo(names[0]).file_size > MAX_EXPORT_BYTES:
                raise InvalidRequestError(f"conversations.json is larger than {MAX_EXPORT_BYTES >> 20} MiB")
            return archive.read(names[0]).decode("utf-8-sig")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as exc:
        raise InvalidRequestError(f"the zip cannot be read: {exc}") from exc


def _import_chat(conversations: Conversations, chat: PortableChat) -> ImportedChat:
    title = _title(chat)
    if not chat.turns:
        return ImportedChat(
            title=title, chat_id="", turn_count=0, skipped="it has no text", remarks=chat.remarks
        )
    with conversations.database.transaction() as connection:
        known = connection.execute(
            "SELECT id FROM chats WHERE owner = ? AND (id = ? OR (source = ? AND source_id = ?))",
            (conversations.owner, chat.source_id, chat.source, chat.source_id),
        ).fetchone()
        if known:
            return ImportedChat(title=title, chat_id=known[0], turn_count=0, skipped="it is here already")
        chat_id = _Insertion(connection, conversations, chat, title).run()
    return ImportedChat(title=title, chat_id=chat_id, turn_count=len(chat.turns), remarks=chat.remarks)


def _title(chat: PortableChat) -> str:
    title = " ".join(storable(chat.title).split())[:MAX_TITLE_CHARACTERS]
    if title:
        return title
    return title_from(storable(chat.turns[0].turn.text)) if chat.turns else UNTITLED


class _Insertion:
    """Stores one chat under new ids, inside a transaction of the caller."""

    def __init__(
        self, connection: sqlite3.Connection, conversations: Conversations, chat: PortableChat, title: str
    ) -> None:
        self._connection = connection
        self._owner = conversations.owner
        self._now_s = conversations.now_s()
        self._chat = chat
        self._title = title
        self._chat_id = uuid.uuid4().hex
        self._new_ids = {portable.turn.id: uuid.uuid4().hex for portable in chat.turns}
        self._turns: dict[str, Turn] = {}

    def run(self) -> str:
        """Insert everything and return the chat's id."""
        self._insert_chat()
        sequence = 0
        for portable in self._chat.turns:
            sequence = self._insert_turn(portable)
        self._connection.execute(
            "UPDATE chats SET active_turn_id = ?, last_sequence = ? WHERE id = ?",
            (self._new_id(self._chat.active_turn_id) or next(reversed(self._turns)), sequence, self._chat_id),
        )
        self._insert_summaries()
        return self._chat_id

    def _insert_chat(self) -> None:
        created_at_s = self._chat.created_at_s or self._now_s
        self._connection.execute(
            "INSERT INTO chats (id, owner, title, is_titled, system_text, created_at_s, updated_at_s, "
            "is_pinned, archived_at_s, source, source_id) VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._chat_id, self._owner, self._title, storable(self._chat.system_text), created_at_s,
                self._chat.updated_at_s or created_at_s, self._chat.is_pinned,
                self._now_s if self._chat.is_archived else None, self._chat.source, self._chat.source_id,
            ),
        )  # fmt: skip
        index_title(self._connection, self._chat_id, self._title)

    def _insert_turn(self, portable: PortableTurn) -> int:
        turn = dataclasses.replace(
            portable.turn,
            id=self._new_ids[portable.turn.id],
            chat_id=self._chat_id,
            parent_id=self._new_id(portable.turn.parent_id),
            state="stopped" if portable.turn.state == "partial" else portable.turn.state,
            text=storable(portable.turn.text),
        )
        sequence: int
        (sequence,) = self._connection.execute(
            "INSERT INTO turns (id, owner, chat_id, parent_id, role, state, text, reasoning, "
            "tool_calls_json, tool_call_id, tool_name, created_at_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING sequence",
            (
                turn.id, self._owner, turn.chat_id, turn.parent_id, turn.role, turn.state, turn.text,
                storable(turn.reasoning), storable(to_json(turn.tool_calls, tuple[ToolCall, ...])),
                storable(turn.tool_call_id), storable(turn.tool_name), turn.created_at_s or self._now_s,
            ),
        ).fetchone()  # fmt: skip
        self._turns[turn.id] = turn
        if turn.role == "assistant":
            self._insert_answer(turn, portable)
        index_turn(self._connection, sequence, turn.text)
        return sequence

    def _insert_answer(self, turn: Turn, portable: PortableTurn) -> None:
        record = turn.answer or AnswerRecord()
        request = encode_request(portable.request, self._branch(turn.parent_id)) if portable.request else ""
        self._connection.execute(
            "INSERT INTO answers (turn_id, owner, request_json, receipt_json, model_json, usage_json, "
            "timings_json, finish_reason, failure_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                turn.id, self._owner, storable(request), storable(portable.receipt_json),
                to_json(record.model, ModelIdentity) if record.model else "",
                to_json(record.usage, Usage), to_json(record.timings, Timings), record.finish_reason or "",
                storable(to_json(record.failure, Failure)) if record.failure else "",
            ),
        )  # fmt: skip

    def _insert_summaries(self) -> None:
        for summary in self._chat.summaries:
            covered = tuple(self._new_ids[each] for each in summary.covered_turn_ids if each in self._new_ids)
            last_id = self._new_id(summary.last_turn_id)
            if last_id is None or len(covered) != len(summary.covered_turn_ids):
                continue
            self._connection.execute(
                "INSERT INTO summaries (id, owner, chat_id, last_turn_id, covered_turn_ids_json, text, "
                "made_by, created_at_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    uuid.uuid4().hex, self._owner, self._chat_id, last_id,
                    to_json(covered, tuple[str, ...]), storable(summary.text), summary.made_by,
                    summary.created_at_s,
                ),
            )  # fmt: skip

    def _branch(self, leaf_id: str | None) -> list[Turn]:
        branch: list[Turn] = []
        while leaf_id is not None:
            turn = self._turns[leaf_id]
            branch.append(turn)
            leaf_id = turn.parent_id
        return branch[::-1]

    def _new_id(self, old_id: str | None) -> str | None:
        return None if old_id is None else self._new_ids.get(old_id)
