"""A stream sends every frame, closes its source whatever happens, and ends with a typed error when it breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from appliance.core.errors import EngineCrashedError
from appliance.server.event_stream import DONE, EventStream, Frame, frame
from appliance.server.running import Running


class Connection:
    """The two ends of an ASGI connection: what was sent, and when the client goes."""

    def __init__(self, *, is_reading: bool = True) -> None:
        self.sent: list[str] = []
        self.gone = asyncio.Event()
        self.has_sent = asyncio.Event()
        self._is_reading = is_reading

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return
        if not self._is_reading:
            await asyncio.Event().wait()
        self.sent.append(message["body"].decode())
        self.has_sent.set()

    @property
    def last_value(self) -> dict[str, dict[str, object]]:
        data = [text for text in self.sent if text.startswith("data: {")][-1]
        value: dict[str, dict[str, object]] = json.loads(data.removeprefix("data: "))
        return value


class Source:
    """Frames with a mark of their end."""

    def __init__(self, *, fails: bool = False, waits: bool = False) -> None:
        self.is_closed = False
        self._fails = fails
        self._waits = waits

    async def frames(self) -> AsyncGenerator[Frame]:
        try:
            yield frame({"text": "héllo"})
            if self._fails:
                raise EngineCrashedError("the worker died")
            if self._waits:
                await asyncio.Event().wait()
            yield DONE
        finally:
            self.is_closed = True


async def played(source: Source, connection: Connection, running: Running, *, write_s: float = 5.0) -> None:
    stream = EventStream(source.frames(), running, write_s=write_s)
    await stream({"type": "http"}, connection.receive, connection.send)


async def test_every_frame_is_sent_and_the_source_is_closed() -> None:
    source, connection = Source(), Connection()

    await played(source, connection, Running())

    assert connection.sent == ['data: {"text":"héllo"}\n\n', "data: [DONE]\n\n", ""]
    assert source.is_closed


async def test_a_failure_is_the_last_event() -> None:
    source, connection = Source(fails=True), Connection()

    await played(source, connection, Running())

    assert connection.last_value["error"]["code"] == "engine_crashed"
    assert connection.sent[-1] == ""
    assert source.is_closed


async def test_a_client_that_goes_cancels_the_work() -> None:
    source, connection, running = Source(waits=True), Connection(), Running()
    playing = asyncio.create_task(played(source, connection, running))
    await connection.has_sent.wait()
    connection.gone.set()

    await playing

    assert source.is_closed
    assert running.count == 0


async def test_a_client_that_reads_nothing_is_given_up() -> None:
    source, running = Source(waits=True), Running()

    await played(source, Connection(is_reading=False), running, write_s=0.01)

    assert source.is_closed
    assert running.count == 0


async def test_stopping_the_server_ends_streams_with_an_error_each() -> None:
    source, connection, running = Source(waits=True), Connection(), Running()
    playing = asyncio.create_task(played(source, connection, running))
    await connection.has_sent.wait()
    running.stop()

    await playing

    assert connection.last_value["error"]["code"] == "provider_unavailable"
    assert connection.sent[-1] == ""
    assert source.is_closed


async def test_draining_lets_running_work_end_and_begins_none() -> None:
    source, connection, running = Source(waits=True), Connection(), Running()
    playing = asyncio.create_task(played(source, connection, running))
    await connection.has_sent.wait()
    running.drain()
    late = Source()
    late_connection = Connection()

    await played(late, late_connection, running)

    assert late_connection.last_value["error"]["code"] == "provider_unavailable"
    assert not playing.done()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert source.is_closed
