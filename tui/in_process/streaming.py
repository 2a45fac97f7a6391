"""Runs blocking work in a thread and hands what it reports to the event loop as an async generator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable

from appliance.core.errors import CancelledRequestError
from tui.rows import WorkEvent, WorkLine

Report = Callable[[WorkEvent], None]

_MOST_PENDING = 256


async def reported(work: Callable[[Report, threading.Event], None]) -> AsyncGenerator[WorkEvent, None]:
    """Yield what `work` reports until it ends; closing the generator asks it to stop and waits.

    `report` raises CancelledRequestError in the working thread once nobody listens.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[WorkEvent | None] = asyncio.Queue()
    stop = threading.Event()

    def report(event: WorkEvent) -> None:
        if stop.is_set():
            raise CancelledRequestError("stopped; what was done so far is kept")
        # A reporter that is far ahead drops progress, never lines.
        if events.qsize() < _MOST_PENDING or isinstance(event, WorkLine):
            loop.call_soon_threadsafe(events.put_nowait, event)

    async def run() -> None:
        try:
            await asyncio.to_thread(work, report, stop)
        finally:
            events.put_nowait(None)

    task = asyncio.ensure_future(run())
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        stop.set()
        await asyncio.wait({task})
