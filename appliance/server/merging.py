"""Several streams of one request as one, each event with the number of its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from appliance.core.errors import InternalError, ProviderUnavailableError
from appliance.core.events import Completed, Failed, LoadProgress, StreamEvent

_WAITING_EVENTS = 32

_log = logging.getLogger(__name__)

NumberedEvent = tuple[int, StreamEvent]


async def merged(streams: Sequence[AsyncGenerator[StreamEvent]]) -> AsyncGenerator[NumberedEvent]:
    """Yield the events of all streams as they come; the first failure ends everything.

    Each stream lives in a task of its own from its first event to its end. Closing this one closes them all
    and waits until they have let go.
    """
    waiting: asyncio.Queue[NumberedEvent] = asyncio.Queue(_WAITING_EVENTS)
    pumps = [asyncio.ensure_future(_pump(number, stream, waiting)) for number, stream in enumerate(streams)]
    running = len(pumps)
    try:
        while running:
            number, event = await waiting.get()
            running -= isinstance(event, Completed)
            yield number, event
            if isinstance(event, Failed):
                return
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def settled(events: AsyncGenerator[NumberedEvent]) -> list[NumberedEvent]:
    """Return the first events, up to the one that shows whether an answer begins or the request failed."""
    head: list[NumberedEvent] = []
    async for number, event in events:
        head.append((number, event))
        if not isinstance(event, LoadProgress):
            break
    return head


async def _pump(
    number: int, stream: AsyncGenerator[StreamEvent], waiting: asyncio.Queue[NumberedEvent]
) -> None:
    try:
        async with aclosing(stream) as events:
            async for event in events:
                await waiting.put((number, _whole_or_failed(event)))
    except Exception as exc:  # noqa: BLE001  a bug below must end its request, not hang it
        _log.exception("a stream broke its promise to raise nothing")
        failure = InternalError(f"{type(exc).__name__}: {exc}").to_failure()
        await waiting.put((number, Failed(failure=failure)))


def _whole_or_failed(event: StreamEvent) -> StreamEvent:
    """An answer that was stopped on our side must not look like a whole one."""
    if not isinstance(event, Completed) or event.finish_reason not in ("cancelled", "error"):
        return event
    stopped = ProviderUnavailableError("the answer was stopped before its end", hint="ask again")
    return Failed(failure=stopped.to_failure(), usage=event.usage, timings=event.timings)
