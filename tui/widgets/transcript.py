"""The conversation on the screen: follows the end only while the reader is there, and streams in measured steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.message import Message
from textual.widget import Widget

from appliance.memory.turns import Branches, Summary, Turn
from tui.clean import shown
from tui.rows import SourcedAnswer
from tui.widgets.fold import Fold
from tui.widgets.plain import Plain
from tui.widgets.turn import TurnView

PAGE_TURNS = 16
_SHORTEST_STEP_S = 0.08
# A step of the stream waits this many times what the last one cost the thread that draws.
_REST_SHARE = 3.5


class Transcript(VerticalScroll, can_focus=False):
    """Turns, newest last. Only the last pages are mounted; older ones come when the reader gets to them."""

    class Moved(Message):
        """The reader scrolled, or lines came: `lines_below` of them were not seen."""

        def __init__(self, lines_below: int) -> None:
            super().__init__()
            self.lines_below = lines_below

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._turns: list[Turn] = []
        self._branches: Mapping[str, Branches] = {}
        self._sources: Mapping[str, SourcedAnswer] = {}
        self._folds: Mapping[str, Summary] = {}
        self._first_shown = 0
        self._live: _LiveAnswer | None = None
        self._height_when_left = 0
        self._is_loading_older = False

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns of the branch."""
        return self._turns

    @property
    def is_following(self) -> bool:
        """Whether the reader is at the end."""
        return self.is_vertical_scroll_end or self.max_scroll_y == 0

    async def show(
        self,
        turns: Sequence[Turn],
        branches: Mapping[str, Branches],
        sources: Mapping[str, SourcedAnswer] | None = None,
        folds: Mapping[str, Summary] | None = None,
    ) -> None:
        """Replace everything by a branch, at its end. `folds` has a summary by the last turn it stands for."""
        await self.end_live()
        self._turns, self._branches = list(turns), branches
        self._sources, self._folds = sources or self._sources, self._folds if folds is None else folds
        self._first_shown = max(0, len(self._turns) - PAGE_TURNS)
        views = self._views(self._turns[self._first_shown :])
        with self.app.batch_update():
            await self.remove_children()
            await self.mount_all([self._older_line(), *views])
        self.anchor()

    async def add(self, turn: Turn) -> TurnView:
        """Add a turn at the end."""
        self._turns.append(turn)
        view = self._view(turn)
        await self.mount(view)
        return view

    async def add_remark(self, text: str) -> None:
        """Add a line that is no turn, such as what was folded."""
        await self.mount(Plain(text, classes="remark"))

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.anchor()
        self.post_message(self.Moved(0))

    async def begin_live(self, turn: Turn) -> None:
        """Add an answer that is being written."""
        view = await self.add(turn)
        self._live = _LiveAnswer(self, view)

    def write_live(self, text: str) -> None:
        """Take a piece of the answer being written."""
        if self._live is not None:
            self._live.text.append(text)
            self._live.wake()

    def write_live_reasoning(self, text: str) -> None:
        """Take a piece of its thinking."""
        if self._live is not None:
            self._live.reasoning.append(text)
            self._live.wake()

    async def end_live(self, turn: Turn | None = None) -> None:
        """Show everything that came, and the turn as it was stored."""
        live, self._live = self._live, None
        if live is None:
            return
        await live.finish()
        if turn is not None:
            self._turns[-1] = turn
            live.view.set_turn(turn)

    def view_of(self, turn_id: str) -> TurnView | None:
        """Return the widget of a turn, if it is mounted."""
        return next((view for view in self.query(TurnView) if view.turn.id == turn_id), None)

    def note_growth(self) -> None:
        """Tell how much came below what the reader sees."""
        if self.is_following:
            self._height_when_left = self.virtual_size.height
            self.post_message(self.Moved(0))
            return
        self.post_message(self.Moved(max(0, self.virtual_size.height - self._height_when_left)))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note that the reader moved; load older turns at the top."""
        super().watch_scroll_y(old_value, new_value)
        if not self.is_attached:
            return
        self.note_growth()
        if new_value <= 0 < old_value and self._first_shown > 0 and not self._is_loading_older:
            self._is_loading_older = True
            self.call_later(self._load_older)

    async def _load_older(self) -> None:
        before = self._first_shown
        self._first_shown = max(0, before - PAGE_TURNS)
        height = self.virtual_size.height
        older = self._views(self._turns[self._first_shown : before])
        try:
            line = self.query_one("#older", Plain)
        except NoMatches:
            self._is_loading_older = False
            return
        await self.mount_all(older, after=line)
        line.show(self._older_text())
        line.display = self._first_shown > 0

        def keep_place() -> None:
            self.scroll_to(y=self.virtual_size.height - height, animate=False, force=True)
            self._is_loading_older = False

        self.call_after_refresh(keep_place)

    def _older_line(self) -> Plain:
        line = Plain(self._older_text(), id="older", classes="remark")
        line.display = self._first_shown > 0
        return line

    def _older_text(self) -> str:
        return f"↑ {self._first_shown} earlier turns · PgUp shows them"

    def _views(self, turns: Sequence[Turn]) -> list[Widget]:
        views: list[Widget] = []
        for turn in turns:
            views.append(self._view(turn))
            if turn.id in self._folds:
                views.append(Fold(self._folds[turn.id]))
        return views

    def _view(self, turn: Turn) -> TurnView:
        return TurnView(turn, self._branches.get(turn.id), self._sources.get(turn.id))


class _LiveAnswer:
    """Writes pieces into one turn's widget, seldom enough that the thread that draws stays mostly idle."""

    def __init__(self, transcript: Transcript, view: TurnView) -> None:
        self.view = view
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self._transcript = transcript
        self._all_reasoning = view.turn.reasoning
        self._wake = asyncio.Event()
        self._is_ended = False
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Say that pieces came."""
        self._wake.set()

    async def finish(self) -> None:
        """Write the rest and end."""
        self._is_ended = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not self._is_ended:
            await self._wake.wait()
            self._wake.clear()
            if self._transcript.screen.selections:
                # What is being selected must not move under the reader's hand.
                await asyncio.sleep(_SHORTEST_STEP_S)
                self._wake.set()
                continue
            cost_s = await self._write()
            if not self._is_ended:
                await asyncio.sleep(max(_SHORTEST_STEP_S, cost_s * _REST_SHARE))
        await self._write()

    async def _write(self) -> float:
        from tui.widgets.answer_text import AnswerText

        started_s = time.thread_time()
        if self.reasoning:
            self._all_reasoning += "".join(self.reasoning)
            self.reasoning.clear()
            self.view.show_live_reasoning(self._all_reasoning)
        text = "".join(self.text)
        self.text.clear()
        if text and self.view.is_attached:
            await self.view.query_one(AnswerText).append(shown(text))
        drawn = asyncio.Event()
        if self._transcript.is_attached and self._transcript.call_after_refresh(drawn.set):
            # A screen that is covered does not refresh.
            with suppress(TimeoutError):
                await asyncio.wait_for(drawn.wait(), 1.0)
            self._transcript.note_growth()
        return time.thread_time() - started_s
