"""A screen with a list and long work on it, one at a time; Escape stops the work before it leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from textual import on, work
from textual.message import Message
from textual.worker import Worker

from appliance.core.errors import ApplianceError, CancelledRequestError, InternalError
from tui.rows import WorkLine, WorkProgress
from tui.screens.frame import Frame
from tui.widgets.work_lines import WorkLines


class WorkingScreen(Frame):
    """Runs work in a worker that only posts messages."""

    STOPPED: ClassVar[str] = "stopped; what was done so far is kept"

    class WorkReported(Message):
        """The work went on."""

        def __init__(self, event: object) -> None:
            super().__init__()
            self.event = event

    class WorkEnded(Message):
        """The work ended; `error` is why it failed."""

        def __init__(self, error: ApplianceError | None) -> None:
            super().__init__()
            self.error = error

    def __init__(self) -> None:
        super().__init__()
        self._work: Worker[None] | None = None

    async def refill(self) -> None:
        """Show the list anew; screens fill it in."""
        raise NotImplementedError

    @property
    def is_working(self) -> bool:
        """Whether work is going on."""
        return self._work is not None and self._work.is_running

    async def take_event(self, event: object) -> None:
        """Show what the work reported; screens whose work reports more than progress add to it."""
        if isinstance(event, WorkProgress | WorkLine):
            self.query_one(WorkLines).take(event)

    async def action_back(self) -> None:
        """Stop the work; without any, go back."""
        if self._work is not None and self._work.is_running:
            self._work.cancel()
            self.query_one(WorkLines).end(self.STOPPED)
            return
        self.app.pop_screen()

    def start(self, what: str, events: AsyncGenerator[object, None]) -> None:
        """Begin work unless some is going on."""
        if self._work is not None and self._work.is_running:
            self.notify_plain("one thing at a time · Esc stops what is running", is_bad=True)
            return
        self.query_one(WorkLines).begin(what)
        self._work = self._pump(events)

    @work(exit_on_error=False)
    async def _pump(self, events: AsyncGenerator[object, None]) -> None:
        error: ApplianceError | None = None
        try:
            async with aclosing(events) as arriving:
                async for event in arriving:
                    self.post_message(self.WorkReported(event))
        except ApplianceError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001  the task boundary: a bug ends the work, not the program
            error = InternalError(f"{type(exc).__name__}: {exc}", hint="this is a bug of the appliance")
        self.post_message(self.WorkEnded(error))

    @on(WorkReported)
    async def _take(self, message: WorkReported) -> None:
        await self.take_event(message.event)

    @on(WorkEnded)
    async def _end(self, message: WorkEnded) -> None:
        error = message.error
        if error is None:
            self.query_one(WorkLines).end()
        elif isinstance(error, CancelledRequestError):
            self.query_one(WorkLines).end(self.STOPPED)
        else:
            self.query_one(WorkLines).end(f"✗ {error.message}")
            self.tell(error)
        await self.refill()
