"""Grounded answers and extraction: what documents say, with every quote checked against their text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.responses import Response

from appliance.config import Settings
from appliance.context.answers import DocumentAnswer
from appliance.context.asking import DocumentAsker
from appliance.context.question import DocumentQuestion
from appliance.core.errors import InvalidRequestError, error_of
from appliance.core.events import StreamEvent, TextDelta
from appliance.core.messages import AssistantMessage, Message, UserMessage
from appliance.core.requests import JsonSchemaFormat, SamplingParams
from appliance.jobs.extract import ExtractTask, RowDone
from appliance.retrieval.library import Library
from appliance.retrieval.records import DocumentRecord
from appliance.server.event_stream import EventStream, Frame, frame
from appliance.server.own.documents import Ids, Names, check_collections, find_document
from appliance.server.own.exchange import existing_chat
from appliance.server.problems import refused
from appliance.server.services import ChatCaller, DocumentCaller, Services, ServicesOf
from appliance.server.teams.tokens import Caller
from appliance.server.wire import JsonObject, ModelName, Text, Wire

router = APIRouter(prefix="/v1", tags=["Documents"])

_MAX_DOCUMENTS = 100
_MAX_TURNS = 1_000


class EarlierTurn(Wire):
    """What was said before the question."""

    role: Literal["user", "assistant"]
    content: Text


class AnswerBody(Wire):
    """A question to documents. `mode` says how quotes come about: chosen by code, by the model, or aligned after.

    `messages` are earlier turns, oldest first, or `conversation` is the id of a stored one whose turns are read:
    a follow-up is told in full from them and searched for as that. Nothing is stored.
    """

    question: Text
    messages: Annotated[list[EarlierTurn], Field(max_length=_MAX_TURNS)] = Field(default_factory=list)
    conversation: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    collections: Names = Field(default_factory=list)
    document_ids: Ids = Field(default_factory=list)
    model: ModelName | None = None
    mode: Literal["quotes", "model", "after"] = "quotes"
    search_mode: Literal["hybrid", "dense", "text"] = "hybrid"
    passages: Annotated[int, Field(ge=1, le=50)] = 5
    max_tokens: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    stream: bool = False


class ExtractionBody(Wire):
    """The fields to take out of documents, as a JSON Schema."""

    schema_: Annotated[JsonObject, Field(alias="schema")]
    collections: Names = Field(default_factory=list)
    document_ids: Ids = Field(default_factory=list)
    instruction: Annotated[str, Field(max_length=20_000)] = ""
    model: ModelName | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1 << 20)] | None = None


@router.post("/answers")
async def answer(
    body: AnswerBody,
    request: Request,
    caller: DocumentCaller,
    chatter: ChatCaller,
    services: ServicesOf,
) -> Response:
    """Answer from the caller's documents, or refuse when they hold too little; every quote is verified.

    With `stream` the model's words come as events `delta`, unverified still, and at last one `answer` with
    the citations. `rewritten_by` says whether a follow-up was told in full, and `search.question` is what was
    searched for.
    """
    library = await services.library.get()
    await check_collections(library, caller.owner, body.collections)
    for document_id in body.document_ids:
        await find_document(library, caller.owner, document_id)
    history = await _history(body, services, chatter)
    asked = replace(
        _question(body, services.model(body.model), caller.owner, services.appliance.settings),
        history=history,
    )
    await services.appliance.gateway.capabilities(asked.model)
    asker = services.appliance.document_asker(library)
    if body.stream:
        frames = _frames(asker, asked)
        return EventStream(frames, services.running, write_s=services.options.write_s)
    answered = await services.running.unless_gone(request, asker.answer(asked))
    return JSONResponse(_answer_json(answered))


def _question(body: AnswerBody, model: str, owner: str, settings: Settings) -> DocumentQuestion:
    return DocumentQuestion(
        question=body.question,
        model=model,
        collections=tuple(body.collections),
        document_ids=tuple(body.document_ids),
        mode=body.mode,
        search_mode=body.search_mode,
        passages=body.passages,
        sampling=replace(
            settings.default_sampling(),
            temperature=body.temperature,
            max_tokens=body.max_tokens,
            seed=body.seed,
        ),
        owner=owner,
    )


async def _history(body: AnswerBody, services: Services, caller: Caller) -> tuple[Message, ...]:
    """Return the turns before the question.

    Raises:
        RefusedError: both ways of giving them are used, or the conversation is not there or not the caller's.
    """
    if body.conversation is None:
        return tuple(_message(turn) for turn in body.messages)
    if body.messages:
        raise refused(
            "earlier turns are given twice, as messages and as a conversation",
            param="messages", code="invalid_value", hint="leave one of them out",
        )  # fmt: skip
    conversations = services.conversations(caller)
    chat = await asyncio.to_thread(existing_chat, conversations, body.conversation)
    turns = await asyncio.to_thread(conversations.turns.shown_branch, chat.id)
    return tuple(message for turn in turns if (message := turn.message()) is not None)


def _message(turn: EarlierTurn) -> Message:
    return UserMessage(text=turn.content) if turn.role == "user" else AssistantMessage(text=turn.content)


async def _frames(asker: DocumentAsker, asked: DocumentQuestion) -> AsyncGenerator[Frame]:
    """Yield the words as they come, then the verified answer."""
    # Bounded by the answer's length: the asker calls back without waiting.
    words: asyncio.Queue[str | None] = asyncio.Queue()

    def on_event(event: StreamEvent) -> None:
        if isinstance(event, TextDelta):
            words.put_nowait(event.text)

    answering = asyncio.ensure_future(asker.answer(asked, on_event))
    answering.add_done_callback(lambda _: words.put_nowait(None))
    try:
        while (text := await words.get()) is not None:
            yield frame({"text": text}, event="delta")
        yield frame(_answer_json(await answering), event="answer")
    finally:
        answering.cancel()
        await asyncio.wait((answering,))


def _answer_json(answered: DocumentAnswer) -> JsonObject:
    if answered.failure is not None and not answered.citations:
        raise error_of(answered.failure)
    return answered.to_json()


@router.post("/extractions")
async def extract(
    body: ExtractionBody,
    request: Request,
    caller: DocumentCaller,
    chatter: ChatCaller,  # noqa: ARG001  an extraction costs what a chat costs
    services: ServicesOf,
) -> JsonObject:
    """Take the fields of a schema out of documents: a row each, with where every value stands."""
    library = await services.library.get()
    documents = await _documents(library, caller.owner, body)
    task = ExtractTask(
        output=JsonSchemaFormat(schema_json=json.dumps(body.schema_), name="row"),
        model=services.model(body.model),
        instruction=body.instruction,
        sampling=SamplingParams(temperature=0.0, max_tokens=body.max_tokens),
        owner=caller.owner,
    )
    await services.appliance.gateway.capabilities(task.model)
    rows = await services.running.unless_gone(request, _rows(services, library, task, documents))
    return {"object": "list", "model": task.model, "data": rows}


async def _rows(
    services: Services, library: Library, task: ExtractTask, documents: list[DocumentRecord]
) -> list[JsonObject]:
    events = services.appliance.extractor(library).run(task, documents)
    async with aclosing(events):
        return [event.row.to_json() async for event in events if isinstance(event, RowDone)]


async def _documents(library: Library, owner: str, body: ExtractionBody) -> list[DocumentRecord]:
    await check_collections(library, owner, body.collections)
    if body.document_ids:
        return [await find_document(library, owner, document_id) for document_id in body.document_ids]
    if not body.collections:
        raise refused(
            "nothing is named to extract from", param="collections", code="missing_required_parameter",
            hint="give collections or document_ids",
        )  # fmt: skip
    records = await asyncio.to_thread(library.store.documents, owner, body.collections)
    if len(records) > _MAX_DOCUMENTS:
        raise InvalidRequestError(
            f"{len(records)} documents are meant; one request reads at most {_MAX_DOCUMENTS}",
            hint="name them in portions with document_ids",
        )
    return records
