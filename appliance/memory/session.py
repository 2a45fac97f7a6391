"""One conversation in motion: store the question, stream the answer, and keep every word of it.

The order is the promise. The question is on disk before the prompt is prepared; each delta is in the
database before it is passed on; whatever happens then (cancel, failure, a caller who leaves, a crash), the
answer is in the chat with how it ended.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from appliance.core.clock import SystemClock
from appliance.core.errors import CancelledRequestError, InvalidRequestError
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.memory.continuing import answer_to_continue
from appliance.memory.conversations import Conversations
from appliance.memory.events import (
    AnswerBegun,
    AnswerSaved,
    ChatEvent,
    HistoryFolded,
    HistoryFolding,
    TurnSaved,
)
from appliance.memory.prompt import PreparedPrompt, PreparePrompt, ReportFolding, StreamAnswer
from appliance.memory.turns import SentRequest, Turn
from appliance.memory.writing import AnswerWriting, drop


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Where an answer goes: below `parent_id`, or below a question that is stored there first."""

    chat_id: str
    parent_id: str | None
    question: str | None = None
    continues: Turn | None = None
    prepared: PreparedPrompt | None = None
    prepare: PreparePrompt | None = None


class ChatSession:
    """Asks and answers in the chats of one owner; one answer at a time in each chat.

    The methods that answer are async generators of `ChatEvent`. They raise ApplianceError when no answer
    could begin (the question is kept) or could be stored; once it began, failures of the model are the
    event `Failed`, and the last event is `AnswerSaved`. Close them (`aclose`) when leaving early. A `prepare`
    given to one of them takes the place of the usual one for this answer.
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
        self._late_ends: list[AnswerWriting] = []

    def is_answering(self, chat_id: str) -> bool:
        """Whether an answer is being written in a chat."""
        return chat_id in self._cancel_wishes

    def cancel(self, chat_id: str) -> bool:
        """Stop the answer of a chat; what was written is kept. False when there is none."""
        wish = self._cancel_wishes.get(chat_id)
        if wish is not None:
            wish.set()
        return wish is not None

    def ask(
        self, chat_id: str, text: str, prepare: PreparePrompt | None = None
    ) -> AsyncGenerator[ChatEvent, None]:
        """Add a question at the end of the branch that is shown, and answer it."""

        async def plan() -> _Plan:
            chat = await asyncio.to_thread(self.conversations.chats.get, chat_id)
            return _Plan(chat_id=chat_id, parent_id=chat.active_turn_id, question=text, prepare=prepare)

        return self._run(plan)

    def edit(
        self, turn_id: str, text: str, prepare: PreparePrompt | None = None
    ) -> AsyncGenerator[ChatEvent, None]:
        """Ask a question in other words, on a branch beside it; the old one stays reachable."""

        async def plan() -> _Plan:
            turn = await asyncio.to_thread(self.conversations.turns.get, turn_id)
            if turn.role != "user":
                raise InvalidRequestError(
                    "only a question can be edited", hint="regenerate an answer instead"
                )
            return _Plan(chat_id=turn.chat_id, parent_id=turn.parent_id, question=text, prepare=prepare)

        return self._run(plan)

    def regenerate(
        self, turn_id: str, prepare: PreparePrompt | None = None
    ) -> AsyncGenerator[ChatEvent, None]:
        """Answer again, on a branch beside the old answer. Takes an answer, a question or a tool result."""

        async def plan() -> _Plan:
            turn = await asyncio.to_thread(self.conversations.turns.get, turn_id)
            parent_id = turn.parent_id if turn.role == "assistant" else turn.id
            if parent_id is None:
                raise InvalidRequestError("this answer has no question to answer again")
            return _Plan(chat_id=turn.chat_id, parent_id=parent_id, prepare=prepare)

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

    def continue_answer(
        self, turn_id: str, prepare: PreparePrompt | None = None
    ) -> AsyncGenerator[ChatEvent, None]:
        """Go on with an answer that was cut off, inside it: what is written now is added to its text."""

        async def plan() -> _Plan:
            turn = await asyncio.to_thread(answer_to_continue, self.conversations.turns, turn_id)
            return _Plan(chat_id=turn.chat_id, parent_id=turn.parent_id, continues=turn, prepare=prepare)

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
            prepared = plan.prepared
            if prepared is None:
                async with aclosing(self._preparing(plan, parent_id, wish)) as steps:
                    async for step in steps:
                        if isinstance(step, PreparedPrompt):
                            prepared = step
                        else:
                            yield step
            assert prepared is not None
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
        request = dataclasses.replace(self._with_seed(prepared.request), conversation_id=plan.chat_id)
        turn = await asyncio.to_thread(
            self._begin, plan, parent_id, SentRequest.of(request), prepared.receipt_json
        )
        journal = self.conversations.turns.journal(turn.id, self._clock)
        stream = prepared.stream or self._stream
        writing = AnswerWriting(
            events=stream(request),
            journal=journal,
            clock=self._clock,
            cancel_wish=wish,
            receipt_at_end=prepared.receipt_at_end,
        )
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

    def _begin(self, plan: _Plan, parent_id: str, sent: SentRequest, receipt_json: str) -> Turn:
        turns = self.conversations.turns
        if plan.continues is not None:
            return turns.reopen_answer(plan.continues, sent, receipt_json=receipt_json)
        return turns.begin_answer(plan.chat_id, sent, parent_id=parent_id, receipt_json=receipt_json)

    async def _store_late_ends(self) -> None:
        """Mark answers ended whose end could not be stored when it came, as on a full disk."""
        self._late_ends = [late for late in self._late_ends if not await asyncio.to_thread(late.end_now)]

    async def _preparing(
        self, plan: _Plan, parent_id: str, wish: asyncio.Event
    ) -> AsyncGenerator[HistoryFolding | PreparedPrompt, None]:
        """Yield what preparing says of itself, then the prepared prompt."""
        foldings: asyncio.Queue[int] = asyncio.Queue()
        task = asyncio.ensure_future(self._prepare_plan(plan, parent_id, foldings.put_nowait))
        wished = asyncio.ensure_future(wish.wait())
        told = asyncio.ensure_future(foldings.get())
        try:
            while True:
                await asyncio.wait({task, wished, told}, return_when=asyncio.FIRST_COMPLETED)
                if told.done():
                    yield HistoryFolding(turns=told.result())
                    told = asyncio.ensure_future(foldings.get())
                elif task.done():
                    yield task.result()
                    return
                else:
                    raise CancelledRequestError("the answer was stopped before it began")
        finally:
            await drop(task)
            await drop(wished)
            await drop(told)

    async def _prepare_plan(self, plan: _Plan, parent_id: str, on_folding: ReportFolding) -> PreparedPrompt:
        chat = await asyncio.to_thread(self.conversations.chats.get, plan.chat_id)
        leaf_id = plan.continues.id if plan.continues else parent_id
        branch = await asyncio.to_thread(self.conversations.turns.branch, leaf_id)
        return await (plan.prepare or self._prepare)(chat, branch, on_folding)

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
            conversation=sent.conversation,
            model=sent.model,
            sampling=sent.sampling,
            output=sent.output,
            tools=sent.tools,
            tool_choice=sent.tool_choice,
            owner=self.conversations.owner,
            prompt_id=sent.prompt_id,
            prompt_version=sent.prompt_version,
        )
