"""Answers that are being made: they end when their client goes, and when the server has to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.requests import Request
from starlette.types import Receive

from appliance.core.errors import ApplianceError, ProviderUnavailableError
from appliance.server.problems import CLIENT_CLOSED_REQUEST, RefusedError

_Result = TypeVar("_Result")


class Running:
    """The work of all requests of a server. After `stop`, nothing new begins and what runs is ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_draining = False
        self._is_stopped = False

    @property
    def is_draining(self) -> bool:
        """Whether the server takes no new work."""
        return self._is_draining

    @property
    def count(self) -> int:
        """How many requests are being answered."""
        return len(self._tasks)

    def drain(self) -> None:
        """Take no new work; what runs goes on."""
        self._is_draining = True

    def stop(self) -> None:
        """End what runs; its clients are told."""
        self._is_draining = self._is_stopped = True
        for task in tuple(self._tasks):
            task.cancel()

    async def unless_gone(self, request: Request, work: Coroutine[object, object, _Result]) -> _Result:
        """Do the work of a request, and cancel it when its client goes.

        Raises:
            RefusedError: the client has gone; nobody reads the answer.
            ProviderUnavailableError: the server is being stopped.
        """
        return await self.until_gone(request.receive, work)

    async def until_gone(self, receive: Receive, work: Coroutine[object, object, _Result]) -> _Result:
        """Like `unless_gone`, for code that holds the receiving side of ASGI only."""
        if self._is_draining:
            work.close()
            raise self._stopping()
        task = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_disconnected(receive))
        self._tasks.add(task)
        try:
            await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise RefusedError(
                    "the client has gone", status=CLIENT_CLOSED_REQUEST, code="client_closed_request"
                )
            if task.cancelled():
                raise self._stopping()
            return task.result()
        finally:
            self._tasks.discard(task)
            for each in (task, leaving):
                await _ended(each)

    def _stopping(self) -> ApplianceError:
        return ProviderUnavailableError(
            "the server is being stopped", hint="ask again when it has started anew"
        )


async def _disconnected(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def _ended(task: asyncio.Future[_Result] | asyncio.Future[None]) -> None:
    """Cancel a task and wait until it has let go of what it held."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
