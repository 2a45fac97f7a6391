"""Reads the exports of other programs: OpenAI's `conversations.json` and Open WebUI's chat export."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from appliance.core.errors import InvalidRequestError
from appliance.core.events import ModelIdentity
from appliance.memory.codec import storable
from appliance.memory.portable import PortableChat, PortableTurn
from appliance.memory.turns import AnswerRecord, Role, Turn

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "note", "system": "note"}

Json = Mapping[str, object]


def read_openai(conversations: Sequence[object]) -> Iterator[PortableChat]:
    """Read each conversation of an OpenAI export with all its branches.

    Hidden and empty messages are left out and their children move up; tool output becomes a note.
    """
    for position, conversation in enumerate(conversations):
        if not _is_object(conversation) or not _is_object(conversation.get("mapping")):
            raise InvalidRequestError(f"entry {position} of the export is not an OpenAI conversation")
        yield _openai_chat(conversation)


def read_open_webui(chats: Sequence[object]) -> Iterator[PortableChat]:
    """Read each chat of an Open WebUI export with all its branches."""
    for position, entry in enumerate(chats):
        if not _is_object(entry) or not _is_object(entry.get("chat")):
            raise InvalidRequestError(f"entry {position} of the export is not an Open WebUI chat")
        yield _open_webui_chat(entry, _object(entry["chat"]))


def _openai_chat(conversation: Json) -> PortableChat:
    remarks: list[str] = []
    nodes: dict[str, tuple[str | None, PortableTurn | None]] = {}
    created_at_s = _number(conversation.get("create_time"))
    for node_id, node in _object(conversation["mapping"]).items():
        if _is_object(node):
            message = _object(node.get("message"))
            parent = _text_or_none(node.get("parent"))
            nodes[node_id] = (parent, _openai_turn(node_id, message, created_at_s, remarks))
    key = (
        _text(conversation.get("conversation_id"))
        or _text(conversation.get("id"))
        or _fingerprint(conversation)
    )
    return _assemble(
        nodes,
        source="openai",
        source_id=key,
        title=_text(conversation.get("title")),
        created_at_s=created_at_s,
        updated_at_s=_number(conversation.get("update_time")) or created_at_s,
        active_id=_text_or_none(conversation.get("current_node")),
        is_archived=conversation.get("is_archived") is True,
        remarks=remarks,
    )


def _openai_turn(
    node_id: str, message: Json, chat_created_at_s: float, remarks: list[str]
) -> PortableTurn | None:
    metadata = _object(message.get("metadata"))
    role = _ROLES.get(_text(_object(message.get("author")).get("role")))
    text = _openai_text(_object(message.get("content")), remarks)
    if role is None or not text.strip() or metadata.get("is_visually_hidden_from_conversation") is True:
        return None
    created_at_s = _number(message.get("create_time")) or chat_created_at_s
    model = _text(metadata.get("model_slug"))
    is_whole = _text(message.get("status")) in ("", "finished_successfully")
    return _turn(node_id, role, text, created_at_s, model=model, provider="openai", is_whole=is_whole)


def _openai_text(content: Json, remarks: list[str]) -> str:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return _text(content.get("text")) or _text(content.get("result"))
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = _text(_object(part).get("content_type")) or "an unknown part"
        spoken = _text(_object(part).get("text"))
        texts.append(spoken or f"[{kind} not imported]")
        if not spoken:
            remarks.append(f"{kind} left out")
    return "\n".join(texts)


def _open_webui_chat(entry: Json, chat: Json) -> PortableChat:
    remarks: list[str] = []
    history = _object(chat.get("history"))
    messages = _object(history.get("messages")) or _chained(chat.get("messages"))
    created_at_s = _number(entry.get("created_at")) or _number(chat.get("timestamp")) / 1000
    nodes: dict[str, tuple[str | None, PortableTurn | None]] = {}
    for message_id, message in messages.items():
        if _is_object(message):
            parent = _text_or_none(message.get("parentId"))
            nodes[message_id] = (parent, _open_webui_turn(message_id, message, created_at_s, remarks))
    last_id = next(reversed(nodes), None) if nodes else None
    params = _object(chat.get("params"))
    return _assemble(
        nodes,
        source="open-webui",
        source_id=_text(entry.get("id")) or _text(chat.get("id")) or _fingerprint(entry),
        title=_text(chat.get("title")) or _text(entry.get("title")),
        created_at_s=created_at_s,
        updated_at_s=_number(entry.get("updated_at")) or created_at_s,
        active_id=_text_or_none(history.get("currentId")) or last_id,
        system_text=_text(params.get("system")) or _text(chat.get("system")),
        is_pinned=entry.get("pinned") is True,
        is_archived=entry.get("archived") is True,
        remarks=remarks,
    )


def _open_webui_turn(
    message_id: str, message: Json, chat_created_at_s: float, remarks: list[str]
) -> PortableTurn | None:
    role = _ROLES.get(_text(message.get("role")))
    content = message.get("content")
    text = _openai_text({"parts": content}, remarks) if isinstance(content, list) else _text(content)
    files = message.get("files")
    if isinstance(files, list) and files:
        remarks.append("an attached file left out")
        text += f"\n[{len(files)} attached files not imported]"
    if role is None or not text.strip():
        return None
    created_at_s = _number(message.get("timestamp")) or chat_created_at_s
    is_whole = message.get("done") is not False and not message.get("error")
    model = _text(message.get("model"))
    return _turn(message_id, role, text, created_at_s, model=model, provider="open-webui", is_whole=is_whole)


def _chained(messages: object) -> Json:
    """Turn an old export's plain list of messages into a mapping with parents."""
    if not isinstance(messages, list):
        return {}
    chained: dict[str, object] = {}
    previous: str | None = None
    for position, message in enumerate(messages):
        if _is_object(message):
            message_id = _text(message.get("id")) or f"message-{position}"
            chained[message_id] = {**message, "parentId": previous}
            previous = message_id
    return chained


def _turn(
    turn_id: str, role: Role, text: str, created_at_s: float, *, model: str, provider: str, is_whole: bool
) -> PortableTurn:
    is_answer = role == "assistant"
    identity = ModelIdentity(provider=provider, name=model) if model else None
    return PortableTurn(
        turn=Turn(
            id=turn_id,
            chat_id="",
            parent_id=None,
            sequence=0,
            role=role,
            state="done" if is_whole or not is_answer else "stopped",
            text=storable(text),
            created_at_s=created_at_s,
            answer=AnswerRecord(model=identity, finish_reason="stop" if is_whole else None)
            if is_answer
            else None,
        )
    )


def _assemble(
    nodes: Mapping[str, tuple[str | None, PortableTurn | None]],
    *,
    source: str,
    source_id: str,
    title: str,
    created_at_s: float,
    updated_at_s: float,
    active_id: str | None,
    remarks: Sequence[str],
    system_text: str = "",
    is_pinned: bool = False,
    is_archived: bool = False,
) -> PortableChat:
    turns = tuple(_parents_first(nodes))
    unreachable = sum(kept is not None for _, kept in nodes.values()) - len(turns)
    if unreachable:
        remarks = [*remarks, f"{unreachable} messages left out whose parents form a loop"]
    return PortableChat(
        source=source,
        source_id=source_id,
        title=title,
        created_at_s=created_at_s,
        updated_at_s=updated_at_s,
        turns=turns,
        active_turn_id=_nearest_kept(active_id, nodes),
        system_text=system_text,
        is_pinned=is_pinned,
        is_archived=is_archived,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _parents_first(nodes: Mapping[str, tuple[str | None, PortableTurn | None]]) -> Iterator[PortableTurn]:
    """Yield the kept turns, each below its nearest kept ancestor, parents before children."""
    children: dict[str | None, list[str]] = {}
    parents = {node_id: _nearest_kept(parent, nodes) for node_id, (parent, _) in nodes.items()}
    for node_id, (_, kept) in nodes.items():
        if kept is not None:
            children.setdefault(parents[node_id], []).append(node_id)
    waiting = list(reversed(children.get(None, [])))
    while waiting:
        node_id = waiting.pop()
        kept = nodes[node_id][1]
        if kept is not None:
            yield PortableTurn(turn=_below(kept.turn, parents[node_id]))
        waiting += reversed(children.get(node_id, []))


def _below(turn: Turn, parent_id: str | None) -> Turn:
    return Turn(
        id=turn.id,
        chat_id="",
        parent_id=parent_id,
        sequence=0,
        role=turn.role,
        state=turn.state,
        text=turn.text,
        created_at_s=turn.created_at_s,
        answer=turn.answer,
    )


def _nearest_kept(
    node_id: str | None, nodes: Mapping[str, tuple[str | None, PortableTurn | None]]
) -> str | None:
    passed: set[str] = set()
    while node_id is not None and node_id in nodes and node_id not in passed:
        passed.add(node_id)
        parent, kept = nodes[node_id]
        if kept is not None:
            return node_id
        node_id = parent
    return None


def _fingerprint(entry: Json) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _object(value: object) -> Json:
    return value if _is_object(value) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isinstance(value, int | float) else 0.0
