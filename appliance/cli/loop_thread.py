"""An event loop in a thread of its own, so that engines live on while the terminal waits for a line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

_Result = TypeVar("_Result")


class LoopThread:
    """Runs coroutines for a synchronous caller. Ctrl+C there cancels the coroutine and waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[object, object, _Result]) -> _Result:
        """Run a coroutine to its end.

        An interrupt cancels it; a coroutine that turns its cancellation into a result returns that.
        A second interrupt does not wait.

        Raises:
            KeyboardInterrupt: the interrupted coroutine had no result.
        """
        outcome: Future[_Result] = Future()
        task: list[asyncio.Task[_Result]] = []
        self._loop.call_soon_threadsafe(lambda: task.append(_start(coroutine, outcome)))
        try:
            return outcome.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(lambda: [started.cancel() for started in task])
        try:
            return outcome.result()
        except asyncio.CancelledError as exc:
            raise KeyboardInterrupt from exc

    def start(self, coroutine: Coroutine[object, object, object]) -> None:
        """Run a coroutine beside; its failure is not reported."""
        self._loop.call_soon_threadsafe(_start, coroutine, Future())


def _start(coroutine: Coroutine[object, object, _Result], outcome: Future[_Result]) -> asyncio.Task[_Result]:
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(lambda done: _hand_over(done, outcome))
    return task


def _hand_over(task: asyncio.Task[_Result], outcome: Future[_Result]) -> None:
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif error := task.exception():
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
