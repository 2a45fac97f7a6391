"""One call of one provider: its deadlines, its failures as values, and exactly one terminal event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Literal

from appliance.core.errors import ApplianceError, DeadlineError, InternalError
from appliance.core.events import (
    Completed,
    Failed,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.ports import Clock, Provider
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings, Usage

Phase = Literal["total", "connect", "first_token", "between_tokens"]

_log = logging.getLogger(__name__)


class Attempt:
    """Runs a request on a provider. The first-token deadline covers queue, load and prefill.

    Args:
        started_s: when the caller asked; the total deadline counts from there.
        asked_s: when this attempt began, if it is not the first.
    """

    def __init__(
        self,
        provider: Provider,
        request: GenerateRequest,
        clock: Clock,
        *,
        started_s: float,
        asked_s: float | None = None,
    ) -> None:
        self._provider = provider
        self._request = request
        self._clock = clock
        self._started_s = started_s
        self._asked_s = started_s if asked_s is None else asked_s
        self._is_connected = False
        self._first_token_s: float | None = None
        self._waiting_since_s: float | None = None
        self._usage = Usage()

    async def events(self) -> AsyncGenerator[StreamEvent]:
        """Yield the provider's events up to the terminal one, or a `Failed` that says why there is none."""
        source = self._provider.stream(self._request)
        try:
            while True:
                event = await self._next_event(source)
                yield event
                if isinstance(event, Completed | Failed):
                    return
        finally:
            await self._closed(source)

    async def _next_event(self, source: AsyncGenerator[StreamEvent]) -> StreamEvent:
        """Return the next event; whatever goes wrong becomes `Failed` here, at the one boundary."""
        try:
            event = await self._within_deadline(source)
        except StopAsyncIteration:
            return self._failed(InternalError(f"{self._provider.name} ended without saying how"))
        except ApplianceError as exc:
            return self._failed(exc)
        except Exception as exc:  # noqa: BLE001  a provider's bug must not end the program that asked
            _log.exception("provider %s broke its promise to raise nothing", self._provider.name)
            message = f"{self._provider.name} failed: {type(exc).__name__}: {exc}"
            return self._failed(InternalError(message))
        self._note(event)
        return event

    async def _within_deadline(self, source: AsyncGenerator[StreamEvent]) -> StreamEvent:
        nearest = self._nearest_deadline()
        if nearest is None:
            return await anext(source)
        phase, remaining_s, limit_s = nearest
        upcoming = asyncio.ensure_future(_next_of(source))
        timer = asyncio.ensure_future(self._clock.sleep(max(remaining_s, 0.0)))
        try:
            await asyncio.wait((upcoming, timer), return_when=asyncio.FIRST_COMPLETED)
            if upcoming.done():
                return upcoming.result()
            raise DeadlineError(phase=phase, limit_s=limit_s)
        finally:
            timer.cancel()
            await _cancelled(upcoming)

    def _nearest_deadline(self) -> tuple[Phase, float, float] | None:
        deadline = self._request.deadline
        now_s = self._clock.now_s()
        elapsed_s = now_s - self._started_s
        running: list[tuple[float, float, Phase]] = []
        if deadline.total_s is not None:
            running.append((deadline.total_s - elapsed_s, deadline.total_s, "total"))
        if deadline.connect_s is not None and not self._is_connected:
            waited_s = now_s - self._asked_s
            running.append((deadline.connect_s - waited_s, deadline.connect_s, "connect"))
        if deadline.first_token_s is not None and self._first_token_s is None:
            waited_s = now_s - self._asked_s
            running.append((deadline.first_token_s - waited_s, deadline.first_token_s, "first_token"))
        if deadline.between_tokens_s is not None and self._first_token_s is not None:
            running.append(
                (self._gap_left_s(deadline.between_tokens_s), deadline.between_tokens_s, "between_tokens")
            )
        if not running:
            return None
        remaining_s, limit_s, phase = min(running)
        return phase, remaining_s, limit_s

    def _gap_left_s(self, limit_s: float) -> float:
        """Count from when we began to wait, so that a slow reader is not the provider's fault."""
        now_s = self._clock.now_s()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        return limit_s - (now_s - self._waiting_since_s)

    def _note(self, event: StreamEvent) -> None:
        self._is_connected = True
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                self._note_token()
            case UsageReported():
                if event.usage.output_tokens > self._usage.output_tokens:
                    self._note_token()
                self._usage = event.usage
            case PrefillProgress():
                self._usage = Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens)

    def _note_token(self) -> None:
        self._waiting_since_s = None
        if self._first_token_s is None:
            self._first_token_s = self._clock.now_s()

    def _failed(self, error: ApplianceError) -> Failed:
        ttft_s = 0.0 if self._first_token_s is None else self._first_token_s - self._asked_s
        timings = Timings(ttft_s=ttft_s, total_s=self._clock.now_s() - self._asked_s)
        return Failed(failure=error.to_failure(), usage=self._usage, timings=timings)

    async def _closed(self, source: AsyncGenerator[StreamEvent]) -> None:
        try:
            await source.aclose()
        except Exception:  # noqa: BLE001  the request's outcome stands
            _log.exception("provider %s failed to close its stream", self._provider.name)


async def _next_of(source: AsyncGenerator[StreamEvent]) -> StreamEvent:
    return await anext(source)


async def _cancelled(task: asyncio.Future[StreamEvent]) -> None:
    """Cancel a task and wait until its generator is at rest, without raising what it ended with."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
