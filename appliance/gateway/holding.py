"""Hold an answer back until it is known whether it stands, and let progress through."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from appliance.core.events import Completed, Failed, ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta

Ending = Completed | Failed


class HeldEvents:
    """Text, tool calls and the ending of one stream; thinking as well, unless it may be shown at once."""

    def __init__(self, events: AsyncGenerator[StreamEvent], *, is_thinking_shown: bool) -> None:
        self._events = events
        self._is_thinking_shown = is_thinking_shown
        self._held: list[StreamEvent] = []
        self._ending: Ending | None = None

    @property
    def ending(self) -> Ending:
        """The terminal event, once `progress` is exhausted."""
        assert self._ending is not None
        return self._ending

    @property
    def deltas(self) -> list[StreamEvent]:
        """What was held back."""
        return self._held

    async def progress(self) -> AsyncGenerator[StreamEvent]:
        """Yield what is not held back."""
        async with aclosing(self._events) as events:
            async for event in events:
                match event:
                    case TextDelta() | ToolCallDelta():
                        self._held.append(event)
                    case ReasoningDelta() if not self._is_thinking_shown:
                        self._held.append(event)
                    case Completed() | Failed():
                        self._ending = event
                    case _:
                        yield event
