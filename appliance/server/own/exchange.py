"""One question and its answer in a stored conversation, or the rest of an answer: nothing that was said is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from appliance.core.answer import AnswerInProgress
from appliance.core.clock import SystemClock
from appliance.core.errors import CancelledRequestError, InvalidRequestError
from appliance.core.events import ReasoningDelta, TextDelta
from appliance.core.messages import Conversation
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.memory.continuing import answer_to_continue
from appliance.memory.conversations import Conversations
from appliance.memory.journal import AnswerEnd
from appliance.memory.prompt import branch_conversation
from appliance.memory.rows import AnswerDelta
from appliance.memory.turns import Chat, SentRequest, Turn
from appliance.server.problems import RefusedError, not_found


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A question that is on disk, with the messages that lead up to it. `branch` are the turns they are made of.

    With `continues` what is answered is added to that answer, which stays as it is until then.

    Set `request` before the model is asked and `result` when it has answered; with neither nothing more is
    stored, with a request alone the answer counts as broken off.
    """

    chat: Chat
    branch: Sequence[Turn]
    conversation: Conversation
    continues: Turn | None = None
    request: GenerateRequest | None = None
    receipt_json: str = ""
    result: GenerateSuccess | GenerateFailure | None = None

    @property
    def chat_id(self) -> str:
        """The conversation it belongs to."""
        return self.chat.id


class Exchanges:
    """Questions and answers of all owners; one at a time in each conversation."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    @asynccontextmanager
    async def open(
        self, conversations: Conversations, chat_id: str | None, question: str, *, system: str = ""
    ) -> AsyncIterator[Exchange]:
        """Store a question at the end of a conversation, or of a new one; at the end, store its answer.

        Raises:
            RefusedError: there is no such conversation, or an answer is being written in it.
        """
        chat = await asyncio.to_thread(_chat, conversations, chat_id, system)
        async with self._held(conversations, chat, lambda: _begun(conversations, chat, question)) as exchange:
            yield exchange

    @asynccontextmanager
    async def reopen(self, conversations: Conversations, chat_id: str) -> AsyncIterator[Exchange]:
        """Take the last answer of a conversation up where it was cut off; at the end, store what was added to it.

        Raises:
            RefusedError: there is no such conversation, or an answer is being written in it.
            InvalidRequestError: its last answer cannot be continued; says why.
        """
        chat = await asyncio.to_thread(existing_chat, conversations, chat_id)
        async with self._held(conversations, chat, lambda: _reopened(conversations, chat)) as exchange:
            yield exchange

    @asynccontextmanager
    async def _held(
        self, conversations: Conversations, chat: Chat, begin: Callable[[], Exchange]
    ) -> AsyncIterator[Exchange]:
        if chat.id in self._busy:
            raise RefusedError(
                "an answer is still being written in this conversation",
                status=409,
                code="conversation_busy",
                hint="wait for it, or begin another conversation",
            )
        self._busy.add(chat.id)
        try:
            exchange = await asyncio.to_thread(begin)
            try:
                yield exchange
            finally:
                if exchange.request is not None:
                    await asyncio.shield(
                        asyncio.to_thread(_store_answer, conversations, exchange, exchange.request)
                    )
        finally:
            self._busy.discard(chat.id)


def stopped(answer: AnswerInProgress) -> GenerateFailure:
    """Return what came of an answer that was broken off."""
    failure = CancelledRequestError("the answer was broken off").to_failure()
    return GenerateFailure(failure=failure, partial=answer.partial(), usage=answer.usage)


def existing_chat(conversations: Conversations, chat_id: str) -> Chat:
    """Return a conversation of this owner that is not in the trash.

    Raises:
        RefusedError: there is none of this id, whoever else may have one.
    """
    chat = any_chat(conversations, chat_id)
    if chat.is_deleted:
        raise _no_such_chat(chat_id)
    return chat


def any_chat(conversations: Conversations, chat_id: str) -> Chat:
    """Return a conversation of this owner, also one in the trash.

    Raises:
        RefusedError: there is none of this id, whoever else may have one.
    """
    try:
        return conversations.chats.get(chat_id)
    except InvalidRequestError as exc:
        raise _no_such_chat(chat_id) from exc


def _no_such_chat(chat_id: str) -> RefusedError:
    return not_found(f"there is no conversation {chat_id[:80]!r}", hint="GET /v1/conversations lists yours")


def _chat(conversations: Conversations, chat_id: str | None, system: str) -> Chat:
    if chat_id is None:
        return conversations.chats.create(system_text=system)
    return existing_chat(conversations, chat_id)


def _begun(conversations: Conversations, chat: Chat, question: str) -> Exchange:
    turns = conversations.turns
    turn = turns.add_user_turn(chat.id, question, parent_id=chat.active_turn_id)
    branch = turns.branch(turn.id)
    return Exchange(
        chat=chat, branch=branch, conversation=branch_conversation(branch, system_text=chat.system_text)
    )


def _reopened(conversations: Conversations, chat: Chat) -> Exchange:
    if chat.active_turn_id is None:
        raise InvalidRequestError("nothing was answered in this conversation yet")
    turn = answer_to_continue(conversations.turns, chat.active_turn_id)
    branch = conversations.turns.branch(turn.id)
    whole = branch_conversation(branch, system_text=chat.system_text)
    return Exchange(chat=chat, branch=branch, conversation=whole, continues=turn)


def _store_answer(conversations: Conversations, exchange: Exchange, request: GenerateRequest) -> None:
    turns = conversations.turns
    sent, receipt_json = SentRequest.of(request), exchange.receipt_json
    if exchange.continues is not None:
        turn = turns.reopen_answer(exchange.continues, sent, receipt_json=receipt_json)
    else:
        parent_id = exchange.branch[-1].id
        turn = turns.begin_answer(exchange.chat_id, sent, parent_id=parent_id, receipt_json=receipt_json)
    journal = turns.journal(turn.id, SystemClock())
    for delta in _deltas(exchange.result):
        journal.append(delta)
    journal.finish(_end(exchange.result))


def _deltas(result: GenerateSuccess | GenerateFailure | None) -> Sequence[AnswerDelta]:
    if result is None:
        return ()
    message = result.message if isinstance(result, GenerateSuccess) else result.partial
    return (ReasoningDelta(text=message.reasoning), TextDelta(text=message.text))


def _end(result: GenerateSuccess | GenerateFailure | None) -> AnswerEnd:
    match result:
        case GenerateSuccess():
            return AnswerEnd(
                state="done",
                finish_reason=result.finish_reason,
                model=result.model,
                usage=result.usage,
                timings=result.timings,
            )
        case GenerateFailure():
            is_stopped = result.failure.kind == "cancelled"
            return AnswerEnd(
                state="stopped" if is_stopped else "failed",
                finish_reason="cancelled" if is_stopped else "error",
                usage=result.usage,
                timings=result.timings,
                failure=result.failure,
            )
        case None:
            return AnswerEnd(state="stopped", finish_reason="cancelled")
