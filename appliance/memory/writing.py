"""Drains the stream of one answer into its journal: stored first, then passed on, ended whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from typing import Literal, TypeVar

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
)
from appliance.core.measured import Measured
from appliance.core.ports import Clock
from appliance.memory.journal import AnswerEnd, AnswerJournal

_Outcome = TypeVar("_Outcome")


class AnswerWriting:
    """Drains one stream into one journal."""

    def __init__(
        self,
        *,
        events: AsyncIterator[StreamEvent],
        journal: AnswerJournal,
        clock: Clock,
        cancel_wish: asyncio.Event,
        receipt_at_end: Callable[[], str] | None = None,
    ) -> None:
        self._events = events
        self._journal = journal
        self._clock = clock
        self._cancel_wish = cancel_wish
        self._receipt_at_end = receipt_at_end
        self._measured = Measured(clock)
        self._end: AnswerEnd | None = None
        self._is_end_stored = False

    async def run(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield each event once it is stored; the last is one `Completed` or `Failed`."""
        wished = asyncio.ensure_future(self._cancel_wish.wait())
        try:
            while self._end is None:
                yield await self._next_stored(wished)
        finally:
            await drop(wished)
            if isinstance(self._events, AsyncGenerator):
                await self._events.aclose()

    def end_now(self) -> bool:
        """Store how the answer ended unless it is stored; an answer left early is stopped. False if it cannot
        be stored at present.
        """
        if self._is_end_stored:
            return True
        end = self._end or AnswerEnd(
            state="stopped",
            finish_reason="cancelled",
            usage=self._measured.usage,
            timings=self._measured.timings(),
        )
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
            event = Failed(
                failure=exc.to_failure(), usage=self._measured.usage, timings=self._measured.timings()
            )
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
            await drop(waiting)

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
            await drop(timer)

    async def _store(self, event: StreamEvent) -> None:
        self._measured.note(event)
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                await asyncio.to_thread(self._journal.append, event)
            case Completed() | Failed():
                receipt_json = self._receipt_at_end() if self._receipt_at_end else ""
                self._end = replace(_end_of(event), receipt_json=receipt_json)
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


async def drop(future: asyncio.Future[_Outcome]) -> None:
    """Cancel a future and wait until it is gone; its outcome is no longer wanted."""
    if not future.done():
        future.cancel()
        await asyncio.wait({future})
