"""An answer while it is written: pieces go into its turn seldom enough that the thread that draws stays mostly idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from appliance.memory.turns import Branches, Turn
from tui.clean import shown
from tui.rows import SourcedAnswer
from tui.widgets.turn import TurnView

_SHORTEST_STEP_S = 0.08
# A step of the stream waits this many times what the last one cost the thread that draws.
_REST_SHARE = 3.5
_SLICE_CHARACTERS = 2_000


class LiveAnswer:
    """Writes into one turn's widget. `note_growth` is called once what was written is on the screen.

    The widget may go when the reader is elsewhere: all that came is kept for the next one.
    """

    def __init__(self, view: TurnView, note_growth: Callable[[], None]) -> None:
        self.view = view
        self._note_growth = note_growth
        self._texts = [view.turn.text]
        self._unwritten = ""
        self._reasonings = [view.turn.reasoning]
        self._has_new_reasoning = False
        self._wake = asyncio.Event()
        self._drawn = asyncio.Event()
        self._ended = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def write(self, text: str) -> None:
        """Take a piece of the answer."""
        self._texts.append(text)
        self._unwritten += shown(text)
        self._wake.set()

    def write_reasoning(self, text: str) -> None:
        """Take a piece of its thinking."""
        self._reasonings.append(text)
        self._has_new_reasoning = True
        self._wake.set()

    def new_view(self, branches: Branches | None, sources: SourcedAnswer | None) -> TurnView:
        """Return another widget that has what came so far, and write into that one from now on."""
        so_far = replace(self.view.turn, text="".join(self._texts), reasoning="".join(self._reasonings))
        self.view = TurnView(so_far, branches, sources)
        self._unwritten = ""
        return self.view

    async def finish(self) -> None:
        """Write the rest and end."""
        self._ended.set()
        self._wake.set()
        # Whoever waits here may be the screen itself, which then cannot draw.
        self._drawn.set()
        await self._task

    def store(self, turn: Turn | None) -> None:
        """Let the widget show the turn as it was stored; one that is not on the screen is made anew later."""
        if self.view.is_attached:
            self.view.set_growing(False)
        if turn is not None:
            self.view.set_turn(turn)

    async def _run(self) -> None:
        while not self._ended.is_set():
            await self._wake.wait()
            self._wake.clear()
            if self.view.is_attached and self.view.screen.selections:
                # What is being selected must not move under the reader's hand.
                self._wake.set()
                await self._rest(_SHORTEST_STEP_S)
                continue
            started_s = time.thread_time()
            await self._write()
            await self._wait_until_drawn()
            cost_s = time.thread_time() - started_s
            await self._rest(max(_SHORTEST_STEP_S, cost_s * _REST_SHARE))
        await self._write()
        self._note_growth()

    async def _rest(self, duration_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), duration_s)

    async def _write(self) -> None:
        from tui.widgets.answer_text import AnswerText

        if self._has_new_reasoning and self.view.is_composed:
            self._has_new_reasoning = False
            self.view.show_live_reasoning("".join(self._reasonings))
        while self._unwritten and self.view.is_composed:
            text, self._unwritten = (
                self._unwritten[:_SLICE_CHARACTERS],
                self._unwritten[_SLICE_CHARACTERS:],
            )
            self.view.query_one(AnswerText).append(text)
            # Keys come first, however much came at once.
            await asyncio.sleep(0)

    async def _wait_until_drawn(self) -> None:
        if self._ended.is_set():
            return
        self._drawn.clear()
        if self.view.is_attached and self.view.call_after_refresh(self._drawn.set):
            # A screen that is covered does not refresh.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drawn.wait(), 1.0)
            self._note_growth()
