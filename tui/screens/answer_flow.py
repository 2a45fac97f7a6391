"""An answer on its way to the screen: its events, in order, change transcript, meter and what is said to happen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, assert_never

from textual.message import Message

from appliance.core.errors import ApplianceError, CancelledRequestError, InternalError
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.usage import Timings, Usage
from appliance.memory.turns import Turn
from tui.clean import shown_line

if TYPE_CHECKING:
    from appliance.memory.events import ChatEvent
    from tui.screens.chat import ChatScreen


_MOMENT_S = 0.04


class EventArrived(Message):
    """The answer went on."""

    def __init__(self, event: ChatEvent) -> None:
        super().__init__()
        self.event = event


class AnswerEnded(Message):
    """No event will come any more; `error` is why none could."""

    def __init__(self, error: ApplianceError | None) -> None:
        super().__init__()
        self.error = error


class _Outbox:
    """Joins the words that come within a moment to one event; everything else goes on at once."""

    def __init__(self, post: Callable[[ChatEvent], object]) -> None:
        self._post = post
        self._texts: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def put(self, event: ChatEvent) -> None:
        """Take an event."""
        if not isinstance(event, TextDelta):
            self.flush()
            self._post(event)
            return
        self._texts.append(event.text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_MOMENT_S, self.flush)

    def flush(self) -> None:
        """Let go on what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._texts:
            self._post(TextDelta(text="".join(self._texts)))
            self._texts.clear()


class AnswerFlow:
    """Follows one answer at a time. Its worker only posts messages; the screen hands them back to `take`."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._phase = ""
        self._phase_began_s = 0.0
        self.is_answering = False

    def begin(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """Show an answer while it is written."""
        self.is_answering = True
        self.set_phase("starting")
        self._screen.run_worker(self._pump(events), group="answer", exit_on_error=False)

    async def take(self, event: ChatEvent) -> None:
        """Show the next event."""
        transcript = self._screen.transcript
        match event.kind:
            case "turn_saved":
                await self._take_question(event.turn)
            case "history_folding":
                self.set_phase(f"folding {event.turns} earlier turns into a summary")
            case "history_folded":
                await transcript.add_remark(f"── {event.text} ──")
            case "answer_begun":
                await self._take_begun(event.turn)
            case "answer_saved":
                await self._take_saved(event.turn)
            case _:
                self._take_stream_event(event)

    async def end(self, error: ApplianceError | None) -> None:
        """Show how the answer ended."""
        await self._screen.transcript.end_live()
        self.is_answering = False
        self.set_phase("")
        if error is not None and not isinstance(error, CancelledRequestError):
            self._screen.tell(error)

    def set_phase(self, phase: str) -> None:
        """Say what is happening; the meter counts its seconds."""
        if phase != self._phase:
            self._phase, self._phase_began_s = phase, time.monotonic()
        self.tick()

    def tick(self) -> None:
        """Let the meter count."""
        waited_s = time.monotonic() - self._phase_began_s
        phase = self._phase
        if phase and phase != "writing" and waited_s >= 1:
            phase = f"{phase} {waited_s:.0f} s"
        if phase != self._screen.meter.state.phase:
            self._screen.meter.change(phase=phase)

    async def _pump(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        error: ApplianceError | None = None
        outbox = _Outbox(lambda event: self._screen.post_message(EventArrived(event)))
        try:
            async with aclosing(events) as arriving:
                async for event in arriving:
                    outbox.put(event)
        except ApplianceError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001  the task boundary: a bug ends the work, not the program
            error = InternalError(f"{type(exc).__name__}: {exc}", hint="this is a bug of the appliance")
        outbox.flush()
        self._screen.post_message(AnswerEnded(error))

    def _take_stream_event(self, event: StreamEvent) -> None:
        transcript, meter = self._screen.transcript, self._screen.meter
        match event:
            case LoadProgress():
                self.set_phase(f"loading the model {event.fraction:.0%}")
            case PrefillProgress():
                share = f"{event.processed_tokens:,}/{event.total_tokens:,}"
                self.set_phase(f"reading {share} ({event.cached_tokens:,} reused)")
                usage = Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens)
                meter.change(usage=usage, sections=(), timings=Timings())
            case TextDelta():
                self.set_phase("writing")
                transcript.write_live(event.text)
            case ReasoningDelta():
                self.set_phase("thinking")
                transcript.write_live_reasoning(event.text)
            case UsageReported():
                if event.usage.output_tokens:
                    self.set_phase("writing")
                meter.change(usage=event.usage)
            case Completed() | Failed():
                meter.change(usage=event.usage, timings=event.timings)
            case ToolCallDelta():
                self.set_phase(f"calling {shown_line(event.name, 40)}")
            case _:
                assert_never(event)

    async def _take_question(self, turn: Turn) -> None:
        self._screen.unsaved_question = ""
        transcript = self._screen.transcript
        shown_ids = [shown.id for shown in transcript.turns]
        if turn.parent_id in shown_ids or not shown_ids:
            await self._cut_below(turn.parent_id)
            await transcript.add(turn)
        else:
            await self._screen.show_turns([turn])
        transcript.follow()

    async def _take_begun(self, turn: Turn) -> None:
        await self._cut_below(turn.parent_id)
        self._screen.model_state = "ready"
        self._screen.show_title()
        await self._screen.transcript.begin_live(turn)
        self._screen.transcript.follow()

    async def _cut_below(self, parent_id: str | None) -> None:
        """Take away the turns of the branch that is left."""
        turns = list(self._screen.transcript.turns)
        place = next((n + 1 for n, turn in enumerate(turns) if turn.id == parent_id), 0)
        if place < len(turns):
            await self._screen.transcript.show(turns[:place])

    async def _take_saved(self, turn: Turn) -> None:
        screen = self._screen
        await screen.transcript.end_live(turn)
        screen.last_answer = turn
        branches = await screen.session.chats.branches_at(turn.id)
        sources = await screen.session.chats.sources(turn.id)
        if view := screen.transcript.view_of(turn.id):
            view.set_turn(turn, branches)
            view.set_sources(sources)
        await screen.show_meter_of(turn)
