"""Events of one request between the reader of the socket and the caller, bounded without losing text."""

from __future__ import annotations

import asyncio
from collections import deque

from appliance.core.events import PrefillProgress, ReasoningDelta, StreamEvent, TextDelta

_LIMIT = 256


class Mailbox:
    """A queue whose producer never waits: when the caller is slow, neighbouring deltas become one."""

    def __init__(self) -> None:
        self._events: deque[StreamEvent] = deque()
        self._has_event = asyncio.Event()

    def put(self, event: StreamEvent) -> None:
        """Add an event, or join it with the last one when the queue is long."""
        joined = _join(self._events[-1], event) if self._events and self._is_full(event) else None
        if joined is not None:
            self._events[-1] = joined
        else:
            self._events.append(event)
        self._has_event.set()

    async def take(self) -> StreamEvent:
        """Wait for the next event."""
        while not self._events:
            self._has_event.clear()
            await self._has_event.wait()
        return self._events.popleft()

    def _is_full(self, event: StreamEvent) -> bool:
        return len(self._events) >= _LIMIT or isinstance(event, PrefillProgress)


def _join(first: StreamEvent, second: StreamEvent) -> StreamEvent | None:
    if isinstance(first, TextDelta) and isinstance(second, TextDelta):
        return TextDelta(text=first.text + second.text, logprobs=first.logprobs + second.logprobs)
    if isinstance(first, ReasoningDelta) and isinstance(second, ReasoningDelta):
        return ReasoningDelta(text=first.text + second.text)
    if isinstance(first, PrefillProgress) and isinstance(second, PrefillProgress):
        return second
    return None
