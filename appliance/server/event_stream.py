"""Server-sent events: frames out as they come, a typed error as the last one when something breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from appliance.core.errors import ApplianceError
from appliance.server.problems import CLIENT_CLOSED_REQUEST, RefusedError, problem_of
from appliance.server.running import Running

Frame = str
"""One event as it goes over the wire, its blank line included."""

DONE: Frame = "data: [DONE]\n\n"


def frame(value: Mapping[str, object], *, event: str = "") -> Frame:
    """Return a value as one event."""
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"


def comment(text: str) -> Frame:
    """Return a line that clients skip; it shows that the server is at work."""
    return f": {text}\n\n"


class EventStream(Response):
    """Sends frames until they end, the client goes, the client reads nothing for a while, or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncGenerator[Frame],
        running: Running,
        *,
        write_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self.headers["x-accel-buffering"] = "no"
        self._frames = frames
        self._running = running
        self._write_s = write_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send everything; the frames are closed whatever happens."""
        async with aclosing(self._frames):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                await self._running.until_gone(receive, self._send_frames(send))
            except RefusedError as exc:
                if exc.status != CLIENT_CLOSED_REQUEST:
                    await self._send(send, frame(problem_of(exc).body()))
                return
            except ApplianceError as exc:
                await self._send(send, frame(problem_of(exc).body()))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_frames(self, send: Send) -> None:
        async for each in self._frames:
            await self._send(send, each)

    async def _send(self, send: Send, text: Frame) -> None:
        try:
            async with asyncio.timeout(self._write_s):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        except TimeoutError as exc:
            raise RefusedError(
                f"the client read nothing for {self._write_s:g} s",
                status=CLIENT_CLOSED_REQUEST,
                code="client_too_slow",
            ) from exc
