"""Administration: users, tokens, retention, the audit log, and the one way an administrator reads content."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from appliance.memory.conversations import Conversations
from appliance.server.forgetting import forget_receipt_json
from appliance.server.own.conversations import chat_json, turn_json
from appliance.server.own.documents import find_document, record_json
from appliance.server.own.exchange import any_chat
from appliance.server.own.forgetting import forget_everything
from appliance.server.services import AdminCaller, Services, ServicesOf
from appliance.server.sweeping import sweep
from appliance.server.teams.retention import EVERYBODY, Kept, RetentionRule, RetentionRules
from appliance.server.teams.tokens import Scope, TokenRecord
from appliance.server.teams.users import Role, User
from appliance.server.wire import JsonObject, Wire

router = APIRouter(prefix="/v1/admin", tags=["Administration"])

_DAY_S = 86_400.0
UserName = Annotated[str, Field(min_length=1, max_length=64)]


class NewUser(Wire):
    """Somebody to let in."""

    name: UserName
    role: Role = "member"


class TokenOrder(Wire):
    """A token to make. Without scopes it gets all of its user's role, without days it is good for ever."""

    label: Annotated[str, Field(max_length=200)] = ""
    scopes: list[Scope] = Field(default_factory=list)
    days: Annotated[float, Field(gt=0, le=36_500)] | None = None


class RetentionBody(Wire):
    """How long things are kept; without a user the rule is for everybody who has none of their own."""

    what: Kept
    days: Annotated[float, Field(gt=0, le=36_500)]
    user: UserName | None = None


class BreakGlassBody(Wire):
    """What an administrator has to read of somebody else, and why. The log keeps who, what and why for ever."""

    user: UserName
    kind: Literal["conversation", "document", "list"]
    id: Annotated[str, Field(max_length=64)] = ""
    reason: Annotated[str, Field(min_length=10, max_length=1_000)]


@router.get("/users")
async def list_users(caller: AdminCaller, services: ServicesOf) -> JsonObject:  # noqa: ARG001
    """List users."""
    users = await asyncio.to_thread(services.users.list_users)
    return {"users": [_user_json(user) for user in users]}


@router.post("/users", status_code=201)
async def add_user(body: NewUser, caller: AdminCaller, services: ServicesOf) -> JsonObject:
    """Add a user."""
    user = await asyncio.to_thread(services.users.add, body.name, body.role, actor=caller.owner)
    return _user_json(user)


@router.delete("/users/{name}")
async def remove_user(
    name: str,
    caller: AdminCaller,
    services: ServicesOf,
    forget: Annotated[bool, Query(description="Forget everything they stored, too.")] = False,
) -> JsonObject:
    """Remove a user and revoke their tokens."""
    user = await asyncio.to_thread(services.users.remove, name, actor=caller.owner)
    if not forget:
        return {"removed": user.name}
    receipt = await forget_everything(services, user.id)
    await asyncio.to_thread(
        services.audit.append, caller.owner, "forgotten.user", user.id, is_clean=receipt.is_clean
    )
    return {"removed": user.name, "forgotten": forget_receipt_json(receipt)}


@router.post("/users/{name}/tokens", status_code=201)
async def create_token(name: str, body: TokenOrder, caller: AdminCaller, services: ServicesOf) -> JsonObject:
    """Make a token; it is in this answer and nowhere else."""
    user = await asyncio.to_thread(services.users.get, name)
    made = await asyncio.to_thread(
        services.tokens.create,
        user,
        actor=caller.owner,
        label=body.label,
        scopes=body.scopes,
        lifetime_s=None if body.days is None else body.days * _DAY_S,
    )
    return {"token": made.text, **_token_json(made.record)}


@router.get("/tokens")
async def list_tokens(caller: AdminCaller, services: ServicesOf) -> JsonObject:  # noqa: ARG001
    """List tokens; the tokens themselves are not kept."""
    records = await asyncio.to_thread(services.tokens.list_tokens)
    return {"tokens": [_token_json(record) for record in records]}


@router.delete("/tokens/{token_id}")
async def revoke_token(token_id: str, caller: AdminCaller, services: ServicesOf) -> JsonObject:
    """Make a token useless from now on."""
    await asyncio.to_thread(services.tokens.revoke, token_id, actor=caller.owner)
    return {"revoked": token_id}


@router.get("/audit")
async def read_audit(
    caller: AdminCaller,  # noqa: ARG001
    services: ServicesOf,
    after: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> JsonObject:
    """Read entries of the audit log in order, with the checkpoint that is to be kept elsewhere."""

    def read() -> list[JsonObject]:
        entries = services.audit.entries(after=after)
        return [asdict(entry) for entry, _ in zip(entries, range(limit), strict=False)]

    entries = await asyncio.to_thread(read)
    checkpoint = await asyncio.to_thread(services.audit.checkpoint)
    return {"entries": entries, "checkpoint": asdict(checkpoint)}


@router.get("/audit/verification")
async def verify_audit(caller: AdminCaller, services: ServicesOf) -> JsonObject:  # noqa: ARG001
    """Compute the chain of the audit log anew."""
    verification = await asyncio.to_thread(services.audit.verify)
    return {**asdict(verification), "is_intact": verification.is_intact}


@router.get("/retention")
async def list_retention(caller: AdminCaller, services: ServicesOf) -> JsonObject:  # noqa: ARG001
    """List the rules of retention."""
    rules = await asyncio.to_thread(RetentionRules(services.database).rules)
    return {"rules": [asdict(rule) for rule in rules]}


@router.put("/retention")
async def set_retention(body: RetentionBody, caller: AdminCaller, services: ServicesOf) -> JsonObject:
    """Set a rule and apply it."""
    user_id = await _user_id(services, body.user)
    rule = RetentionRule(user_id=user_id, what=body.what, days=body.days)
    await asyncio.to_thread(RetentionRules(services.database).set, rule, actor=caller.owner)
    return {**asdict(rule), "forgotten": await sweep(services)}


@router.delete("/retention/{what}")
async def remove_retention(
    what: Kept, caller: AdminCaller, services: ServicesOf, user: Annotated[str | None, Query()] = None
) -> JsonObject:
    """Take a rule away."""
    user_id = await _user_id(services, user)
    await asyncio.to_thread(RetentionRules(services.database).remove, user_id, what, actor=caller.owner)
    return {"removed": what}


@router.post("/break-glass")
async def break_glass(body: BreakGlassBody, caller: AdminCaller, services: ServicesOf) -> JsonObject:
    """Read what belongs to somebody else. The entry in the audit log is on disk before anything is read."""
    user = await asyncio.to_thread(services.users.get, body.user)
    entry = await asyncio.to_thread(
        services.audit.append,
        caller.owner,
        "content.read",
        f"{body.kind} {body.id}".strip(),
        owner=user.id,
        reason=body.reason,
    )
    return {"audit_entry": entry.sequence, **await _content(services, user, body)}


async def _content(services: Services, user: User, body: BreakGlassBody) -> JsonObject:
    conversations = services.conversations_of(user.id)
    match body.kind:
        case "conversation":
            return await asyncio.to_thread(_conversation, conversations, body.id)
        case "document":
            library = await services.library.get()
            record = await find_document(library, user.id, body.id)
            parsed = await asyncio.to_thread(library.store.parsed, user.id, body.id)
            return {"document": {**record_json(record), "text": parsed.text if parsed else ""}}
        case "list":
            chats = await asyncio.to_thread(conversations.chats.list_chats, "all", limit=1_000)
            return {"conversations": [chat_json(chat) for chat in chats]}


def _conversation(conversations: Conversations, chat_id: str) -> JsonObject:
    chat = any_chat(conversations, chat_id)
    turns = conversations.turns.all_turns(chat.id)
    return {"conversation": {**chat_json(chat), "turns": [turn_json(turn) for turn in turns]}}


async def _user_id(services: Services, name: str | None) -> str:
    return EVERYBODY if name is None else (await asyncio.to_thread(services.users.get, name)).id


def _user_json(user: User) -> JsonObject:
    return {"id": user.id, "name": user.name, "role": user.role, "created_at_s": user.created_at_s}


def _token_json(record: TokenRecord) -> JsonObject:
    return {**asdict(record), "scopes": sorted(record.scopes)}
