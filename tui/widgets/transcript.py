"""The conversation on the screen: a window of its turns that moves with the reader, and follows the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from appliance.memory.turns import Branches, Summary, Turn
from tui.rows import SourcedAnswer
from tui.widgets.blank import blank_lines
from tui.widgets.fold import Fold
from tui.widgets.live_answer import LiveAnswer
from tui.widgets.plain import Plain
from tui.widgets.stretch import Stretch
from tui.widgets.turn import TurnView

PAGE_TURNS = 16
# What comes when a page is turned: fewer, for the reader waits until they are laid out.
TURNED_TURNS = 8
_MOST_PAGES = 11
# What lies this many screens beside the visible one is laid out too, so that a page further shows it at once.
_NEAR_SCREENS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What is shown with turns beside their text: branches and sources by the turn's id."""

    branches: Mapping[str, Branches] = field(default_factory=dict)
    sources: Mapping[str, SourcedAnswer] = field(default_factory=dict)


DetailsOf = Callable[[Sequence[Turn]], Awaitable[Details]]


async def no_details(turns: Sequence[Turn]) -> Details:  # noqa: ARG001
    """Return that nothing is known beside the text."""
    return Details()


class Page(Stretch):
    """Some turns that come and go together."""

    def __init__(self, turns: int, views: Sequence[Widget]) -> None:
        super().__init__(classes="page stretches")
        self.turns = turns
        self._views = views

    def compose(self) -> ComposeResult:
        yield from self._views


class Transcript(VerticalScroll, can_focus=False):
    """Turns, newest last. Only some pages are mounted; others come when the reader gets to them."""

    # Growth moves the end and the scrollbar, which need no second layout.
    virtual_size = Reactive(Size(0, 0))

    class Moved(Message):
        """The reader scrolled, or lines came: `lines_below` of them were not seen."""

        def __init__(self, lines_below: int) -> None:
            super().__init__()
            self.lines_below = lines_below

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._turns: list[Turn] = []
        self._details_of: DetailsOf = no_details
        self._folds: Mapping[str, Summary] = {}
        self._first_shown = 0
        self._end_shown = 0
        self._live: LiveAnswer | None = None
        self._height_when_left = 0
        self._is_turning = False

    def compose(self) -> ComposeResult:
        yield Plain(id="older", classes="remark")
        yield Plain(id="newer", classes="remark")

    def on_mount(self) -> None:
        """Begin with no turns."""
        self._tell_what_is_left()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background of the turns."""
        return blank_lines(self, crop)

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns of the branch."""
        return self._turns

    @property
    def is_following(self) -> bool:
        """Whether the reader is at the end."""
        return self._shows_end and (self.is_vertical_scroll_end or self.max_scroll_y == 0)

    async def show(
        self,
        turns: Sequence[Turn],
        details_of: DetailsOf | None = None,
        folds: Mapping[str, Summary] | None = None,
    ) -> None:
        """Replace everything by a branch, at its end. `folds` has a summary by the last turn it stands for."""
        await self.end_live()
        self._turns = list(turns)
        self._details_of = details_of or self._details_of
        self._folds = self._folds if folds is None else folds
        await self._show_end()

    async def add(self, turn: Turn) -> TurnView:
        """Add a turn at the end."""
        if not self._shows_end:
            await self._show_end()
        view = TurnView(turn)
        self._turns.append(turn)
        self._end_shown = len(self._turns)
        page = self._pages[-1] if self._pages else None
        if page is None or page.turns >= PAGE_TURNS:
            await self.mount(Page(1, [view]), before="#newer")
            return view
        page.turns += 1
        await page.mount(view)
        return view

    async def add_remark(self, text: str) -> None:
        """Add a line that is no turn, such as what was folded."""
        if pages := self._pages:
            await pages[-1].mount(Plain(text, classes="remark"))

    def follow(self) -> None:
        """Go to the end and stay there."""
        if not self._shows_end:
            self.call_later(self._show_end)
            return
        self.anchor()
        self.post_message(self.Moved(0))

    def go_back(self) -> None:
        """Go a page up; on a screen that holds all that is mounted, the turns before come."""
        if self.scroll_y <= 0 and self._first_shown > 0:
            self._begin_turning(self._turn_back)
        else:
            self.scroll_page_up(animate=False)

    def go_on(self) -> None:
        """Go a page down; at the end of what is mounted, the turns after come."""
        if self.scroll_y >= self.max_scroll_y and not self._shows_end:
            self._begin_turning(self._turn_on)
        else:
            self.scroll_page_down(animate=False)

    async def go_to_beginning(self) -> None:
        """Go to the first turn."""
        self.release_anchor()
        if self._first_shown > 0:
            await self._show_from(0)
        self.scroll_home(animate=False)

    async def go_to_turn(self, turn_id: str) -> TurnView | None:
        """Bring a turn onto the screen; return its widget, or None when it is none of this branch."""
        place = next((place for place, turn in enumerate(self._turns) if turn.id == turn_id), None)
        if place is None:
            return None
        if not self._first_shown <= place < self._end_shown:
            self.release_anchor()
            await self._show_from(max(0, place - PAGE_TURNS // 2))
        return self.view_of(turn_id)

    async def begin_live(self, turn: Turn) -> None:
        """Add an answer that is being written."""
        view = await self.add(turn)
        view.set_growing(True)
        self._live = LiveAnswer(view, self.note_growth)

    def write_live(self, text: str) -> None:
        """Take a piece of the answer being written."""
        if self._live is not None:
            self._live.write(text)

    def write_live_reasoning(self, text: str) -> None:
        """Take a piece of its thinking."""
        if self._live is not None:
            self._live.write_reasoning(text)

    async def end_live(self, turn: Turn | None = None) -> None:
        """Show everything that came, and the turn as it was stored."""
        live = self._live
        if live is None:
            return
        await live.finish()
        self._live = None
        if turn is not None:
            self._turns[-1] = turn
        live.store(turn)
        self.call_after_refresh(self.note_growth)

    def view_of(self, turn_id: str) -> TurnView | None:
        """Return the widget of a turn, if it is mounted."""
        return next((view for view in self.query(TurnView) if view.turn.id == turn_id), None)

    def note_growth(self) -> None:
        """Tell how much came below what the reader sees."""
        self._lay_out_what_is_near()
        if self.is_following:
            self._height_when_left = self.virtual_size.height
            self.post_message(self.Moved(0))
            return
        self.post_message(self.Moved(max(0, self.virtual_size.height - self._height_when_left)))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note that the reader moved; turn the page at either end."""
        super().watch_scroll_y(old_value, new_value)
        if not self.is_attached:
            return
        self.note_growth()
        if new_value <= 0 < old_value and self._first_shown > 0:
            self._begin_turning(self._turn_back)
        elif new_value >= self.max_scroll_y and new_value > old_value and not self._shows_end:
            self._begin_turning(self._turn_on)

    def on_resize(self, event: Resize) -> None:  # noqa: ARG002
        """Lay out what a larger screen shows."""
        self.call_after_refresh(self._lay_out_what_is_near)

    @property
    def _shows_end(self) -> bool:
        return self._end_shown >= len(self._turns)

    @property
    def _pages(self) -> list[Page]:
        return [child for child in self.children if isinstance(child, Page)]

    async def _show_end(self) -> None:
        await self._show_from(max(0, len(self._turns) - PAGE_TURNS))
        self.anchor()
        self.post_message(self.Moved(0))

    async def _show_from(self, first: int) -> None:
        end = min(first + PAGE_TURNS, len(self._turns))
        page = await self._page(first, end) if end > first else None
        self._first_shown, self._end_shown = first, end
        with self.app.batch_update():
            await self.remove_children(Page)
            await self.mount_all([page] if page else [], before="#newer")
        self._keep_growing()
        self._tell_what_is_left()
        self.call_after_refresh(self._lay_out_what_is_near)

    def _begin_turning(self, turn: Callable[[], Awaitable[None]]) -> None:
        if not self._is_turning:
            self._is_turning = True
            self.call_later(turn)

    async def _turn_back(self) -> None:
        first = max(0, self._first_shown - TURNED_TURNS)
        pages = self._pages
        page = await self._page(first, self._first_shown, beside=pages[:1])
        if page is None:
            self._is_turning = False
            return
        self._first_shown -= page.turns
        await self._turn(page, pages[0], dropped=pages[_MOST_PAGES - 1 :], is_back=True)

    async def _turn_on(self) -> None:
        end = min(len(self._turns), self._end_shown + TURNED_TURNS)
        pages = self._pages
        page = await self._page(self._end_shown, end, beside=pages[-1:])
        if page is None:
            self._is_turning = False
            return
        self._end_shown += page.turns
        self.release_anchor()
        await self._turn(page, pages[-1], dropped=pages[: 1 - _MOST_PAGES], is_back=False)

    async def _turn(self, page: Page, beside: Page, *, dropped: Sequence[Page], is_back: bool) -> None:
        """Mount a page beside one that is there, and drop the furthest; the reader stays where she is."""
        lines_in = self.scroll_y - beside.virtual_region.y
        if self._live is not None:
            dropped = ()
        with self.app.batch_update():
            await self.mount(page, before=beside if is_back else None, after=None if is_back else beside)
            await self.remove_children(dropped)
        self._keep_growing()
        dropped_turns = sum(one.turns for one in dropped)
        if is_back:
            self._end_shown -= dropped_turns
        else:
            self._first_shown += dropped_turns
        self._tell_what_is_left()

        def keep_place() -> None:
            self.scroll_to(y=beside.virtual_region.y + lines_in, animate=False, force=True)
            self._is_turning = False
            self._lay_out_what_is_near()

        self.call_after_refresh(keep_place)

    async def _page(self, first: int, end: int, *, beside: Sequence[Page] | None = None) -> Page | None:
        """Return some turns; nothing when those they were to stand beside went meanwhile."""
        turns = self._turns[first:end]
        details = await self._details_of(turns)
        if beside is not None and not any(page.is_attached for page in beside):
            return None
        views: list[Widget] = []
        for turn in turns:
            views.append(self._view(turn, details))
            if turn.id in self._folds:
                views.append(Fold(self._folds[turn.id]))
        return Page(len(turns), views)

    def _view(self, turn: Turn, details: Details) -> TurnView:
        branches, sources = details.branches.get(turn.id), details.sources.get(turn.id)
        if self._live is not None and self._live.view.turn.id == turn.id:
            return self._live.new_view(branches, sources)
        return TurnView(turn, branches, sources)

    def _keep_growing(self) -> None:
        if self._live is not None and self._live.view.is_attached:
            self._live.view.set_growing(True)

    def _tell_what_is_left(self) -> None:
        later = len(self._turns) - self._end_shown
        for line, left, text in (
            ("#older", self._first_shown, f"↑ {self._first_shown} earlier turns · PgUp shows them"),
            ("#newer", later, f"↓ {later} later turns · PgDn shows them"),
        ):
            told = self.query_one(line, Plain)
            told.show(text)
            told.display = left > 0

    def _lay_out_what_is_near(self) -> None:
        if not self.is_attached or self.screen.selections:
            return
        margin = self.size.height * _NEAR_SCREENS
        top, bottom = self.scroll_y - margin, self.scroll_y + self.size.height + margin
        _lay_out_between(self, 0, top, bottom)


def _lay_out_between(container: Widget, y: int, top: float, bottom: float) -> None:
    """Let the stretches between two lines be laid out, and no others. `y` is the container's own line."""
    for child in container.children:
        if not child.display:
            continue
        height = child.outer_size.height
        # Before its first layout a widget has no height.
        is_near = height == 0 or (y < bottom and y + height > top)
        if isinstance(child, Stretch):
            is_near = is_near or child.is_growing
            if child.is_near and not is_near:
                for inner in child.query(Stretch):
                    inner.set_near(False)
            child.set_near(is_near)
        if is_near and child.has_class("stretches"):
            _lay_out_between(child, y, top, bottom)
        y += height + child.styles.margin.bottom
