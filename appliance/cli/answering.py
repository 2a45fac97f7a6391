"""Streams one answer to a screen; an interrupt stops it within one step and keeps what was written."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from appliance.cli.screen import AnswerScreen
from appliance.core.answer import AnswerInProgress
from appliance.core.errors import CancelledRequestError
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateResult
from appliance.gateway import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """How an answer ended. An interrupted one keeps its partial text."""

    result: GenerateResult
    is_interrupted: bool = False


async def answer_on_screen(gateway: Gateway, request: GenerateRequest, screen: AnswerScreen) -> ShownAnswer:
    """Ask and show. Cancelling this task is the interrupt: it returns, rather than raising."""
    answer = AnswerInProgress()
    try:
        async with aclosing(gateway.stream(request)) as events:
            async for event in events:
                answer.add(event)
                screen.show(event)
    except asyncio.CancelledError:
        _swallow_cancellation()
        failure = CancelledRequestError("the answer was interrupted").to_failure()
        partial = GenerateFailure(failure=failure, partial=answer.partial(), usage=answer.usage)
        return ShownAnswer(result=partial, is_interrupted=True)
    finally:
        screen.finish()
    return ShownAnswer(result=answer.result())


def _swallow_cancellation() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
