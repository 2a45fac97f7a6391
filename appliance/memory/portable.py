"""Conversations as values that leave and enter the store, and the own JSON format of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance import __version__
from appliance.core.errors import InvalidRequestError, StorageError
from appliance.memory.codec import from_json, to_json
from appliance.memory.conversations import Conversations
from appliance.memory.turns import SentRequest, Summary, Turn

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableTurn:
    """A turn with everything that belongs to it."""

    turn: Turn
    request: SentRequest | None = None
    receipt_json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableChat:
    """A chat with all its branches. `active_turn_id` names one of its turns."""

    source: str
    source_id: str
    title: str
    created_at_s: float
    turns: tuple[PortableTurn, ...]
    updated_at_s: float | None = None
    active_turn_id: str | None = None
    system_text: str = ""
    is_pinned: bool = False
    is_archived: bool = False
    summaries: tuple[Summary, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    format: Literal["appliance-chats"]
    version: int
    program: str
    exported_at_s: float
    chats: tuple[PortableChat, ...]


def take_out(conversations: Conversations, chat_id: str) -> PortableChat:
    """Return a chat with all its branches."""
    chat = conversations.chats.get(chat_id)
    tree = conversations.turns
    turns = tuple(
        PortableTurn(
            turn=turn,
            request=tree.request_of(turn.id) if turn.answer else None,
            receipt_json=tree.receipt_of(turn.id) if turn.answer else "",
        )
        for turn in tree.all_turns(chat_id)
    )
    return PortableChat(
        source="appliance",
        source_id=chat.id,
        title=chat.title,
        created_at_s=chat.created_at_s,
        updated_at_s=chat.updated_at_s,
        turns=turns,
        active_turn_id=chat.active_turn_id,
        system_text=chat.system_text,
        is_pinned=chat.is_pinned,
        is_archived=chat.is_archived,
        summaries=tuple(conversations.summaries.of_chat(chat_id)),
    )


def export_json(
    conversations: Conversations, chat_ids: Sequence[str], *, now_s: Callable[[], float] = time.time
) -> str:
    """Return chats as JSON text that `import` reads back whole: branches, requests, receipts, summaries."""
    document = _Document(
        format="appliance-chats",
        version=FORMAT_VERSION,
        program=__version__,
        exported_at_s=now_s(),
        chats=tuple(take_out(conversations, chat_id) for chat_id in chat_ids),
    )
    return json.dumps(json.loads(to_json(document, _Document)), ensure_ascii=False, indent=1)


def read_own_export(text: str) -> tuple[PortableChat, ...]:
    """Read the own JSON format.

    Raises:
        InvalidRequestError: it is of a newer version or damaged.
    """
    version = json.loads(text).get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InvalidRequestError(
            f"this export has version {version!r} of the format; version {FORMAT_VERSION} is read here",
            hint="use the newer program that wrote it",
        )
    try:
        chats = from_json(text, _Document, "export").chats
    except StorageError as exc:
        raise InvalidRequestError(
            "this export is damaged or was changed by hand", hint="export the chats again"
        ) from exc
    for chat in chats:
        _check_tree(chat)
    return chats


def _check_tree(chat: PortableChat) -> None:
    seen: set[str] = set()
    for portable in chat.turns:
        turn = portable.turn
        if turn.id in seen or (turn.parent_id is not None and turn.parent_id not in seen):
            raise InvalidRequestError(f"turn {turn.id!r} of the chat {chat.title!r} has no place in its tree")
        seen.add(turn.id)
