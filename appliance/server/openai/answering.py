"""Asks the gateway for the answers of one call: whole, or as events whose first one decides the status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from fastapi import Request

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import error_of
from appliance.core.events import Failed
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.server.merging import NumberedEvent, merged, settled
from appliance.server.services import Services


async def answered(
    services: Services, request: Request, requests: Sequence[GenerateRequest]
) -> list[GenerateSuccess]:
    """Return the whole answers of several requests, in order.

    Raises:
        ApplianceError: one of them failed, the client has gone, or the server is being stopped.
    """
    await _check_model(services, requests)
    return await services.running.unless_gone(request, _collect(services, requests))


async def begun(
    services: Services, request: Request, requests: Sequence[GenerateRequest]
) -> AsyncGenerator[NumberedEvent]:
    """Return the events of several requests once an answer begins; until then a failure has a status of its own.

    Raises:
        ApplianceError: no answer began.
    """
    await _check_model(services, requests)
    events = merged([services.appliance.gateway.stream(each) for each in requests])
    try:
        head = await services.running.unless_gone(request, settled(events))
        for _, event in head:
            if isinstance(event, Failed):
                raise error_of(event.failure)
    except BaseException:
        await events.aclose()
        raise
    return _chained(head, events)


async def _chained(
    head: Sequence[NumberedEvent], rest: AsyncGenerator[NumberedEvent]
) -> AsyncGenerator[NumberedEvent]:
    async with aclosing(rest):
        for each in head:
            yield each
        async for each in rest:
            yield each


async def _collect(services: Services, requests: Sequence[GenerateRequest]) -> list[GenerateSuccess]:
    answers = [AnswerInProgress() for _ in requests]
    events = merged([services.appliance.gateway.stream(each) for each in requests])
    async with aclosing(events):
        async for number, event in events:
            answers[number].add(event)
            if isinstance(event, Failed):
                raise error_of(event.failure)
    return [_success(answer) for answer in answers]


def _success(answer: AnswerInProgress) -> GenerateSuccess:
    match answer.result():
        case GenerateSuccess() as success:
            return success
        case GenerateFailure(failure=failure):
            raise error_of(failure)


async def _check_model(services: Services, requests: Sequence[GenerateRequest]) -> None:
    """Ask for the model first: that it does not exist is told apart from other wrong requests."""
    names = dict.fromkeys(request.model for request in requests)
    await asyncio.gather(*(services.appliance.gateway.capabilities(name) for name in names))
