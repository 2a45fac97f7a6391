"""One conversation in motion: store the question, stream the answer, and keep every word of it.

The order is the promise. The question is on disk before the prompt is prepared; each delta is in the
database before it is passed on; whatever happens then (cancel, failure, a caller who leaves, a crash), the
answer is in the chat with how it ended.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeVar

from appliance.core.clock import SystemClock
from appliance.core.errors import (
    ApplianceError,
    CancelledRequestError,
    InternalError,
    InvalidRequestError,
    StorageError,
)
from appliance.core.events import (
    Completed,
    Failed,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.messages import AssistantMessage, Conversation, Message, UserMessage
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Usage
from appliance.memory.conversations import Conversations
from appliance.memory.journal import AnswerEnd, AnswerJournal
from appliance.memory.prompt import PreparedPrompt, PreparePrompt
from appliance.memory.turns import SentRequest, Summary, Turn

_Outcome = TypeVar("_Outcome")

StreamAnswer = Callable[[GenerateRequest], AsyncIterator[StreamEvent]]
"""The gateway's or a provider's `stream`."""

CONTINUE_INSTRUCTION = (
    "Your last answer was cut off. Continue it exactly where it ends. Repeat nothing and add no introduction."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSaved:
    """The user's turn is on disk."""

    turn: Turn
    kind: Literal["turn_saved"] = "turn_saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFolded:
    """The prompt does not hold the whole branch word for word; `text` is the marker to show."""

    text: str
    summary: Summary | None
    kind: Literal["history_folded"] = "history_folded"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBegun:
    """The answer's turn exists, marked partial."""

    turn: Turn
    kind: Literal["answer_begun"] = "answer_begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSaved:
    """The last event: the answer as it is on disk, with how it ended."""

    turn: Turn
    kind: Literal["answer_saved"] = "answer_saved"


ChatEvent = TurnSaved | HistoryFolded | AnswerBegun | StreamEvent | AnswerSaved


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Where an answer goes: below `parent_id`, or below a question that is stored there first."""

    chat_id: str
    parent_id: str | None
    question: str | None = None
    continues: Turn | None = None
    prepared: PreparedPrompt | None = None


class ChatSession:
    """Asks and answers in the chats of one owner; one answer at a time in each chat.

    The methods that answer are async generators of `ChatEvent`. They raise ApplianceError when no answer
    could begin (the question is kept) or could be stored; once it began, failures of the model are the
    event `Failed`, and the last event is `AnswerSaved`. Close them (`aclose`) when leaving early.
    """

    def __init__(
        self,
        conversations: Conversations,
        stream: StreamAnswer,
        prepare: PreparePrompt,
        *,
        clock: Clock | None = None,
        new_seed: Callable[[], int] = lambda: random.getrandbits(32),
    ) -> None:
        self.conversations = conversations
        self._stream = stream
        self._prepare = prepare
        self._clock = clock or SystemClock()
        self._new_seed = new_seed
        self._cancel_wishes: dict[str, asyncio.Event] = {}
        self._late_ends: list[_Writing] = []

    def is_answering(self, chat_id: str) -> bool:
        """Whether an answer is being written in a chat."""
        return chat_id in self._cancel_wishes

    def cancel(self, chat_id: str) -> bool:
        """Stop the answer of a chat; what was written is kept. False when there is none."""
        wish = self._cancel_wishes.get(chat_id)
        if wish is not None:
            wish.set()
        return wish is not None

    def ask(self, chat_id: str, text: str) -> AsyncGenerator[ChatEvent, None]:
        """Add a question at the end of the branch that is shown, and answer it."""

        async def plan() -> _Plan:
            chat = await asyncio.to_thread(self.conversations.chats.get, chat_id)
            return _Plan(chat_id=chat_id, parent_id=chat.active_turn_id, question=text)

        return self._run(plan)

    def edit(self, turn_id: str, text: str) -> AsyncGenerator[ChatEvent, None]:
        """Ask a question in other words, on a branch beside it; the old one stays reachable."""

        async def plan() -> _Plan:
            turn = await asyncio.to_thread(self.conversations.turns.get, turn_id)
            if turn.role != "user":
                raise InvalidRequestError(
                    "only a question can be edited", hint="regenerate an answer instead"
                )
            return _Plan(chat_id=turn.chat_id, parent_id=turn.parent_id, question=text)

        return self._run(plan)

    def regenerate(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Answer again, on a branch beside the old answer. Takes an answer, a question or a tool result."""

        async def plan() -> _Plan:
            turn = await asyncio.to_thread(self.conversations.turns.get, turn_id)
            parent_id = turn.parent_id if turn.role == "assistant" else turn.id
            if parent_id is None:
                raise InvalidRequestError("this answer has no question to answer again")
            return _Plan(chat_id=turn.chat_id, parent_id=parent_id)

        return self._run(plan)

    def run_again(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Send the very same request again, seed included, on a branch beside the old answer."""

        async def plan() -> _Plan:
            turns = self.conversations.turns
            turn = await asyncio.to_thread(turns.get, turn_id)
            sent = await asyncio.to_thread(turns.request_of, turn_id)
            if sent is None or turn.parent_id is None:
                raise InvalidRequestError("how this answer was made is not known, so it cannot be run again")
            receipt_json = await asyncio.to_thread(turns.receipt_of, turn_id)
            prepared = PreparedPrompt(request=self._as_request(sent), receipt_json=receipt_json)
            return _Plan(chat_id=turn.chat_id, parent_id=turn.parent_id, prepared=prepared)

        return self._run(plan)

    def continue_answer(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Go on with a stopped answer. The whole is a new turn beside it, beginning with the same text."""

        async def plan() -> _Plan:
            turn = await asyncio.to_thread(self.conversations.turns.get, turn_id)
            if turn.role != "assistant" or turn.parent_id is None or not turn.text:
                raise InvalidRequestError("there is no text of an answer to continue")
            if turn.state == "partial":
                raise InvalidRequestError("this answer is still being written")
            return _Plan(chat_id=turn.chat_id, parent_id=turn.parent_id, continues=turn)

        return self._run(plan)

    async def _run(self, make_plan: Callable[[], Awaitable[_Plan]]) -> AsyncGenerator[ChatEvent, None]:
        plan = await make_plan()
        self._check_free(plan.chat_id)
        wish = self._cancel_wishes[plan.chat_id] = asyncio.Event()
        try:
            await self._store_late_ends()
            parent_id = plan.parent_id
            if plan.question is not None:
                question = await asyncio.to_thread(
                    self.conversations.turns.add_user_turn, plan.chat_id, plan.question, parent_id=parent_id
                )
                parent_id = question.id
                yield TurnSaved(turn=question)
            assert parent_id is not None
            prepared = plan.prepared or await _unless_cancelled(self._prepare_plan(plan, parent_id), wish)
            if prepared.marker:
                yield HistoryFolded(text=prepared.marker, summary=prepared.new_summary)
            async with aclosing(self._answer(plan, parent_id, prepared, wish)) as events:
                async for event in events:
                    yield event
        finally:
            del self._cancel_wishes[plan.chat_id]

    async def _answer(
        self, plan: _Plan, parent_id: str, prepared: PreparedPrompt, wish: asyncio.Event
    ) -> AsyncGenerator[ChatEvent, None]:
        request = self._with_seed(prepared.request)
        turn = await asyncio.to_thread(
            self.conversations.turns.begin_answer,
            plan.chat_id,
            _as_sent(request),
            parent_id=parent_id,
            receipt_json=prepared.receipt_json,
            continues=plan.continues,
        )
        journal = self.conversations.turns.journal(turn.id, self._clock)
        writing = _Writing(events=self._stream(request), journal=journal, clock=self._clock, cancel_wish=wish)
        try:
            yield AnswerBegun(turn=turn)
            async with aclosing(writing.run()) as events:
                async for event in events:
                    yield event
        finally:
            # Not awaited: the caller may be gone, and a second cancellation must not lose the end.
            if not writing.end_now():
                self._late_ends.append(writing)
        yield AnswerSaved(turn=await asyncio.to_thread(self.conversations.turns.get, turn.id))

    async def _store_late_ends(self) -> None:
        """Mark answers ended whose end could not be stored when it came, as on a full disk."""
        self._late_ends = [late for late in self._late_ends if not await asyncio.to_thread(late.end_now)]

    async def _prepare_plan(self, plan: _Plan, parent_id: str) -> PreparedPrompt:
        prepared = await self._prepare_branch(plan.chat_id, parent_id)
        return _to_continue(prepared, plan.continues.text) if plan.continues else prepared

    async def _prepare_branch(self, chat_id: str, parent_id: str) -> PreparedPrompt:
        chat = await asyncio.to_thread(self.conversations.chats.get, chat_id)
        branch = await asyncio.to_thread(self.conversations.turns.branch, parent_id)
        return await self._prepare(chat, branch)

    def _check_free(self, chat_id: str) -> None:
        if self.is_answering(chat_id):
            raise InvalidRequestError(
                "an answer is still being written in this chat", hint="wait for it or stop it first"
            )

    def _with_seed(self, request: GenerateRequest) -> GenerateRequest:
        if request.sampling.seed is not None:
            return request
        sampling = dataclasses.replace(request.sampling, seed=self._new_seed())
        return dataclasses.replace(request, sampling=sampling)

    def _as_request(self, sent: SentRequest) -> GenerateRequest:
        return GenerateRequest(
            conversation=Conversation(sent.messages),
            model=sent.model,
            sampling=sent.sampling,
            output=sent.output,
            tools=sent.tools,
            tool_choice=sent.tool_choice,
            owner=self.conversations.owner,
            prompt_id=sent.prompt_id,
            prompt_version=sent.prompt_version,
        )


class _Writing:
    """Drains one stream into one journal."""

    def __init__(
        self,
        *,
        events: AsyncIterator[StreamEvent],
        journal: AnswerJournal,
        clock: Clock,
        cancel_wish: asyncio.Event,
    ) -> None:
        self._events = events
        self._journal = journal
        self._clock = clock
        self._cancel_wish = cancel_wish
        self._usage = Usage()
        self._end: AnswerEnd | None = None
        self._is_end_stored = False

    async def run(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield each event once it is stored; the last is one `Completed` or `Failed`."""
        wished = asyncio.ensure_future(self._cancel_wish.wait())
        try:
            while self._end is None:
                yield await self._next_stored(wished)
        finally:
            await _drop(wished)
            if isinstance(self._events, AsyncGenerator):
                await self._events.aclose()

    def end_now(self) -> bool:
        """Store how the answer ended unless it is stored; an answer left early is stopped. False if it cannot
        be stored at present.
        """
        if self._is_end_stored:
            return True
        end = self._end or AnswerEnd(state="stopped", finish_reason="cancelled", usage=self._usage)
        try:
            self._journal.finish(end)
        except StorageError:
            return False
        except InvalidRequestError:
            # It was deleted, or a cancelled call stored the end after all.
            pass
        self._is_end_stored = True
        return True

    async def _next_stored(self, wished: asyncio.Future[Literal[True]]) -> StreamEvent:
        try:
            event = await self._next_event(wished)
            await self._store(event)
        except ApplianceError as exc:
            if self._end is not None:
                raise
            event = Failed(failure=exc.to_failure(), usage=self._usage)
            await self._store(event)
        return event

    async def _next_event(self, wished: asyncio.Future[Literal[True]]) -> StreamEvent:
        waiting = asyncio.ensure_future(anext(self._events))
        try:
            while not waiting.done() and not wished.done():
                await self._wait(waiting, wished)
            if wished.done() and not _is_terminal(waiting):
                raise CancelledRequestError("the answer was stopped")
            return waiting.result()
        except StopAsyncIteration:
            raise InternalError("the stream ended without a terminal event") from None
        finally:
            await _drop(waiting)

    async def _wait(
        self, waiting: asyncio.Future[StreamEvent], wished: asyncio.Future[Literal[True]]
    ) -> None:
        due_in_s = self._journal.checkpoint_due_in_s
        awaited: set[asyncio.Future[StreamEvent] | asyncio.Future[Literal[True]]] = {waiting, wished}
        if due_in_s is None:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            return
        timer = asyncio.ensure_future(self._clock.sleep(due_in_s))
        try:
            await asyncio.wait({*awaited, timer}, return_when=asyncio.FIRST_COMPLETED)
            if timer.done():
                await asyncio.to_thread(self._journal.checkpoint)
        finally:
            await _drop(timer)

    async def _store(self, event: StreamEvent) -> None:
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                await asyncio.to_thread(self._journal.append, event)
            case UsageReported():
                self._usage = event.usage
            case Completed() | Failed():
                self._end = _end_of(event)
                await asyncio.to_thread(self._journal.finish, self._end)
                self._is_end_stored = True
            case _:
                pass


def _is_terminal(waiting: asyncio.Future[StreamEvent]) -> bool:
    is_whole = waiting.done() and not waiting.cancelled() and waiting.exception() is None
    return is_whole and isinstance(waiting.result(), Completed | Failed)


def _end_of(event: Completed | Failed) -> AnswerEnd:
    match event:
        case Completed():
            return AnswerEnd(
                state="stopped" if event.finish_reason in ("cancelled", "error") else "done",
                finish_reason=event.finish_reason,
                model=event.model,
                usage=event.usage,
                timings=event.timings,
            )
        case Failed():
            is_cancelled = event.failure.kind == "cancelled"
            return AnswerEnd(
                state="stopped" if is_cancelled else "failed",
                finish_reason="cancelled" if is_cancelled else "error",
                usage=event.usage,
                timings=event.timings,
                failure=event.failure,
            )


def _to_continue(prepared: PreparedPrompt, text: str) -> PreparedPrompt:
    messages: Sequence[Message] = (
        *prepared.request.conversation.messages,
        AssistantMessage(text=text),
        UserMessage(text=CONTINUE_INSTRUCTION),
    )
    request = dataclasses.replace(prepared.request, conversation=Conversation(tuple(messages)))
    return dataclasses.replace(prepared, request=request)


def _as_sent(request: GenerateRequest) -> SentRequest:
    return SentRequest(
        model=request.model,
        messages=request.conversation.messages,
        sampling=request.sampling,
        output=request.output,
        tools=request.tools,
        tool_choice=request.tool_choice,
        prompt_id=request.prompt_id,
        prompt_version=request.prompt_version,
        request_id=request.request_id,
    )


async def _unless_cancelled(preparing: Awaitable[PreparedPrompt], wish: asyncio.Event) -> PreparedPrompt:
    task = asyncio.ensure_future(preparing)
    wished = asyncio.ensure_future(wish.wait())
    try:
        await asyncio.wait({task, wished}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise CancelledRequestError("the answer was stopped before it began")
        return task.result()
    finally:
        await _drop(task)
        await _drop(wished)


async def _drop(future: asyncio.Future[_Outcome]) -> None:
    """Cancel a future and wait until it is gone; its outcome is no longer wanted."""
    if not future.done():
        future.cancel()
        await asyncio.wait({future})
