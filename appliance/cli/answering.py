"""Streams one answer to a screen; an interrupt stops it within one step and keeps what was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from appliance.cli.screen import AnswerScreen
from appliance.core.answer import AnswerInProgress
from appliance.core.clock import SystemClock
from appliance.core.errors import CancelledRequestError
from appliance.core.events import StreamEvent
from appliance.core.measured import Measured
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult
from appliance.gateway import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """How an answer ended. An interrupted one keeps its partial text, and what was measured of it here."""

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
    measured = Measured(SystemClock())
    try:
        async with aclosing(arriving) as events:
            async for event in events:
                measured.note(event)
                answer.add(event)
                screen.show(event)
    except asyncio.CancelledError:
        swallow_cancellation()
        return interrupted(answer, measured)
    finally:
        screen.finish()
    return ShownAnswer(result=answer.result())


def interrupted(answer: AnswerInProgress, measured: Measured) -> ShownAnswer:
    """Return what came of an answer by the time it was interrupted."""
    partial = GenerateFailure(
        failure=CancelledRequestError("the answer was interrupted").to_failure(),
        partial=answer.partial(),
        usage=measured.usage,
        timings=measured.timings(),
    )
    return ShownAnswer(result=partial, is_interrupted=True)


def swallow_cancellation() -> None:
    """Take a cancellation of this task as done: the interrupt has its result."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
