"""Conversations of the caller: begin, list, read, ask, continue an answer, delete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import asdict, replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.responses import Response

from appliance.app import open_facts
from appliance.core.answer import AnswerInProgress
from appliance.core.errors import ApplianceError, error_of
from appliance.core.events import ReasoningDelta, TextDelta
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.memory.chat_prompt import AnswerChoice, ChatPrompt, no_facts
from appliance.memory.conversations import Conversations
from appliance.memory.fact_recall import FactRecall
from appliance.memory.prompt import PreparedPrompt
from appliance.memory.short_term import policy_named
from appliance.memory.turns import Chat, Turn
from appliance.server.event_stream import EventStream, Frame, frame
from appliance.server.merging import NumberedEvent
from appliance.server.openai.answering import begun
from appliance.server.openai.answers import receipt_json, usage_json
from appliance.server.own.exchange import Exchange, existing_chat, stopped
from appliance.server.services import ChatCaller, Services, ServicesOf
from appliance.server.wire import JsonObject, ModelName, Text, Wire

router = APIRouter(prefix="/v1/conversations", tags=["Conversations"])


class NewConversation(Wire):
    """A conversation to begin, with instructions for all of its answers."""

    title: Annotated[str, Field(max_length=200)] = ""
    instructions: Text = ""


class Answering(Wire):
    """Who answers, and how."""

    model: ModelName | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    stream: bool = False


class NewMessage(Answering):
    """A question at the end of a conversation."""

    content: Annotated[str, Field(min_length=1, max_length=4_000_000)]


@router.post("", status_code=201)
async def begin(body: NewConversation, caller: ChatCaller, services: ServicesOf) -> JsonObject:
    """Begin an empty conversation."""
    chats = services.conversations(caller).chats
    chat = await asyncio.to_thread(chats.create, title=body.title, system_text=body.instructions)
    return chat_json(chat)


@router.get("")
async def list_conversations(
    caller: ChatCaller,
    services: ServicesOf,
    shelf: Literal["current", "archived", "trash"] = "current",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> JsonObject:
    """List the caller's conversations, the one used last first."""
    chats = services.conversations(caller).chats
    found = await asyncio.to_thread(chats.list_chats, shelf, limit=limit, offset=offset)
    return {"conversations": [chat_json(chat) for chat in found]}


@router.get("/search")
async def search(
    q: Annotated[str, Query(min_length=1, max_length=1_000)],
    caller: ChatCaller,
    services: ServicesOf,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JsonObject:
    """Find turns of the caller with every word of a query."""
    hits = await asyncio.to_thread(services.conversations(caller).search, q, limit=limit)
    return {"hits": [asdict(hit) for hit in hits]}


@router.get("/{conversation_id}")
async def show(conversation_id: str, caller: ChatCaller, services: ServicesOf) -> JsonObject:
    """Show a conversation with the turns of the branch in use."""
    conversations = services.conversations(caller)
    chat = await asyncio.to_thread(existing_chat, conversations, conversation_id)
    turns = await asyncio.to_thread(conversations.turns.shown_branch, chat.id)
    return {**chat_json(chat), "turns": [turn_json(turn) for turn in turns]}


@router.post("/{conversation_id}/messages")
async def ask(
    conversation_id: str, body: NewMessage, request: Request, caller: ChatCaller, services: ServicesOf
) -> Response:
    """Ask at the end of a conversation and answer; both are stored. What no longer fits is folded as the setting
    `memory` says; the answer's `note` says of which turns, and its receipt what the prompt held.

    With `stream` the answer comes as events `delta` and `reasoning`, and at last as one `answer`.
    """
    opening = services.exchanges.open(services.conversations(caller), conversation_id, body.content)
    return await _respond(opening, body, request, caller, services)


@router.post("/{conversation_id}/continue")
async def go_on(
    conversation_id: str, body: Answering, request: Request, caller: ChatCaller, services: ServicesOf
) -> Response:
    """Go on with the last answer, which was stopped or cut at a limit, right behind its last character.

    What is written is added to that answer: `content` is all of it, `added` what is new, and `usage` counts this
    request alone. With `stream` the events `delta` hold what is new. An answer that the model ended itself is refused.
    """
    opening = services.exchanges.reopen(services.conversations(caller), conversation_id)
    return await _respond(opening, body, request, caller, services)


async def _respond(
    opening: AbstractAsyncContextManager[Exchange],
    body: Answering,
    request: Request,
    caller: ChatCaller,
    services: Services,
) -> Response:
    model = services.model(body.model)
    await services.appliance.gateway.capabilities(model)
    sampling = _sampling(body, services.appliance.settings.default_sampling())
    conversations = services.conversations(caller)
    async with AsyncExitStack() as opened:
        exchange = await opened.enter_async_context(opening)
        if exchange.continues is None:
            # What is stored when no prompt comes about: the whole question, and why.
            exchange.request = GenerateRequest(
                conversation=exchange.conversation, model=model, sampling=sampling, owner=caller.owner
            )
        prepared = await services.running.unless_gone(
            request, _prepared(services, conversations, exchange, model, sampling)
        )
        asked = replace(prepared.request, conversation_id=exchange.chat_id)
        exchange.request, exchange.receipt_json = asked, prepared.receipt_json
        headers = {"x-request-id": asked.request_id}
        if not body.stream:
            answer = await services.running.unless_gone(request, _answered(services, exchange, prepared))
            return JSONResponse(answer, headers=headers)
        try:
            events = await begun(services, request, [asked])
        except ApplianceError as exc:
            exchange.result = GenerateFailure(failure=exc.to_failure())
            raise
        frames = _frames(exchange, prepared, events, opened.pop_all())
    return EventStream(frames, services.running, write_s=services.options.write_s, headers=headers)


@router.delete("/{conversation_id}")
async def delete(conversation_id: str, caller: ChatCaller, services: ServicesOf) -> JsonObject:
    """Move a conversation to the trash; `POST /v1/forget` removes it for good."""
    conversations = services.conversations(caller)
    chat = await asyncio.to_thread(existing_chat, conversations, conversation_id)
    await asyncio.to_thread(conversations.chats.delete, chat.id)
    return {"deleted": chat.id}


def _sampling(body: Answering, usual: SamplingParams) -> SamplingParams:
    return replace(
        usual,
        temperature=usual.temperature if body.temperature is None else body.temperature,
        max_tokens=body.max_tokens or usual.max_tokens,
        seed=body.seed,
    )


async def _prepared(
    services: Services,
    conversations: Conversations,
    exchange: Exchange,
    model: str,
    sampling: SamplingParams,
) -> PreparedPrompt:
    """Return the prompt of a question: instructions, facts of its owner, and what of the past fits."""
    settings = services.appliance.settings
    facts = open_facts(settings, services.database, owner=conversations.owner)
    prepare = ChatPrompt(
        services.appliance.gateway,
        conversations,
        AnswerChoice(model=model, sampling=sampling, memory=policy_named(settings.memory)),
        recall=no_facts if settings.facts == "off" else FactRecall(facts),
    )
    try:
        return await prepare(exchange.chat, exchange.branch, lambda _turns: None)
    except ApplianceError as exc:
        exchange.result = GenerateFailure(failure=exc.to_failure())
        raise


async def _answered(services: Services, exchange: Exchange, prepared: PreparedPrompt) -> JsonObject:
    assert exchange.request is not None
    result = await services.appliance.gateway.generate(exchange.request)
    exchange.result = result
    if isinstance(result, GenerateFailure):
        raise error_of(result.failure)
    return _answer_json(exchange, prepared, result)


async def _frames(
    exchange: Exchange,
    prepared: PreparedPrompt,
    events: AsyncGenerator[NumberedEvent],
    opened: AsyncExitStack,
) -> AsyncGenerator[Frame]:
    """Yield the answer as it comes; what has come when the client leaves is stored as broken off."""
    answer = AnswerInProgress()
    async with opened, aclosing(events):
        try:
            async for _, event in events:
                answer.add(event)
                if isinstance(event, TextDelta):
                    yield frame({"text": event.text}, event="delta")
                elif isinstance(event, ReasoningDelta):
                    yield frame({"text": event.text}, event="reasoning")
        finally:
            exchange.result = answer.result() if answer.is_finished else stopped(answer)
        if isinstance(exchange.result, GenerateFailure):
            raise error_of(exchange.result.failure)
        yield frame(_answer_json(exchange, prepared, exchange.result), event="answer")


def _answer_json(exchange: Exchange, prepared: PreparedPrompt, result: GenerateSuccess) -> JsonObject:
    assert exchange.request is not None
    receipt = receipt_json(exchange.request, [result])
    before = exchange.continues.text if exchange.continues is not None else None
    return {
        "conversation_id": exchange.chat_id,
        "role": "assistant",
        "content": (before or "") + result.message.text,
        **({} if before is None else {"added": result.message.text}),
        "reasoning": result.message.reasoning,
        "finish_reason": result.finish_reason,
        "usage": usage_json(result.usage),
        "note": prepared.marker,
        "appliance": {**receipt, "prompt": json.loads(prepared.receipt_json)},
    }


def chat_json(chat: Chat) -> JsonObject:
    """Return a conversation as lists show it."""
    return {
        "id": chat.id,
        "title": chat.title,
        "instructions": chat.system_text,
        "created_at_s": chat.created_at_s,
        "updated_at_s": chat.updated_at_s,
        "turn_count": chat.turn_count,
        "is_pinned": chat.is_pinned,
        "is_archived": chat.is_archived,
    }


def turn_json(turn: Turn) -> JsonObject:
    """Return one turn."""
    return {
        "id": turn.id,
        "role": turn.role,
        "state": turn.state,
        "finish_reason": turn.answer.finish_reason if turn.answer is not None else None,
        "text": turn.text,
        "reasoning": turn.reasoning,
        "created_at_s": turn.created_at_s,
    }
