"""Streams one answer to a screen; an interrupt stops it within one step and keeps what was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter

from appliance.cli.screen import AnswerScreen
from appliance.core.answer import AnswerInProgress
from appliance.core.errors import CancelledRequestError
from appliance.core.events import ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult
from appliance.core.usage import Timings
from appliance.gateway import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """How an answer ended. An interrupted one keeps its partial text; nobody counted its tokens."""

    result: GenerateResult
    is_interrupted: bool = False


async def answer_on_screen(
    gateway: Gateway, request: GenerateRequest, screen: AnswerScreen, answer_type: type | None = None
) -> ShownAnswer:
    """Ask and show. Cancelling this task is the interrupt: it returns, rather than raising."""
    return await events_on_screen(gateway.stream(request, answer_type), screen)


async def events_on_screen(arriving: AsyncGenerator[StreamEvent], screen: AnswerScreen) -> ShownAnswer:
    """Show an answer whose events are made elsewhere; interrupted as `answer_on_screen` is."""
    answer = AnswerInProgress()
    stopwatch = Stopwatch()
    try:
        async with aclosing(arriving) as events:
            async for event in events:
                stopwatch.note(event)
                answer.add(event)
                screen.show(event)
    except asyncio.CancelledError:
        swallow_cancellation()
        failure = CancelledRequestError("the answer was interrupted").to_failure()
        partial = GenerateFailure(failure=failure, partial=answer.partial(), timings=stopwatch.timings())
        return ShownAnswer(result=partial, is_interrupted=True)
    finally:
        screen.finish()
    return ShownAnswer(result=answer.result())


class Stopwatch:
    """Times an answer from this side, for one that is interrupted."""

    def __init__(self) -> None:
        self._started_s = perf_counter()
        self._first_delta_s: float | None = None

    def note(self, event: StreamEvent) -> None:
        """Take the time of the first delta."""
        if self._first_delta_s is None and isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
            self._first_delta_s = perf_counter()

    def timings(self) -> Timings:
        """Return what is known by now."""
        ttft_s = 0.0 if self._first_delta_s is None else self._first_delta_s - self._started_s
        return Timings(ttft_s=ttft_s, total_s=perf_counter() - self._started_s)


def swallow_cancellation() -> None:
    """Take a cancellation of this task as done: the interrupt has its result."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
