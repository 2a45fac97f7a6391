"""The conversation as a window that moves: what is written out of sight is there when the reader comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from textual.app import App, ComposeResult

from appliance.memory.turns import Turn
from tests.screen_text import screen_text, until
from tui.widgets.transcript import PAGE_TURNS, Details, Transcript
from tui.widgets.turn import TurnView

BEGUN = Turn(
    id="live",
    chat_id="c",
    parent_id="40",
    sequence=41,
    role="assistant",
    state="partial",
    text="",
    created_at_s=0,
)


class Conversation(App[None]):
    """Shows one transcript."""

    CSS = ".stretches, Plain { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()

    def compose(self) -> ComposeResult:
        yield self.transcript


def turns(count: int) -> list[Turn]:
    return [
        replace(BEGUN, id=str(number), role="user", state="done", text=f"question {number}.")
        for number in range(count)
    ]


async def test_an_answer_written_while_the_reader_is_at_the_beginning_is_whole_when_she_comes_back() -> None:
    app = Conversation()
    async with app.run_test() as pilot:
        await app.transcript.show(turns(2 * PAGE_TURNS))
        await app.transcript.begin_live(BEGUN)
        app.transcript.write_live("before, ")
        await until(lambda: "before," in screen_text(app), "the answer begins")
        await app.transcript.go_to_beginning()
        app.transcript.write_live("meanwhile, ")
        await pilot.pause(0.2)
        app.transcript.follow()
        await until(lambda: "before, meanwhile," in screen_text(app), "the answer is shown again")
        app.transcript.write_live("after")

        await until(lambda: "before, meanwhile, after" in screen_text(app), "the answer goes on")


async def test_an_answer_that_ends_while_it_is_not_on_the_screen_is_shown_as_it_was_stored() -> None:
    app = Conversation()
    async with app.run_test() as pilot:
        await app.transcript.show(turns(2 * PAGE_TURNS))
        await app.transcript.begin_live(BEGUN)
        await app.transcript.go_to_beginning()
        app.transcript.write_live("all of it")
        await app.transcript.end_live(replace(BEGUN, state="done", text="all of it"))
        await pilot.pause()
        app.transcript.follow()

        await until(lambda: "all of it" in screen_text(app), "the answer is shown")
        assert app.query(TurnView).last(TurnView).turn.state == "done"


async def test_a_page_is_not_turned_beside_turns_that_went_meanwhile() -> None:
    is_asked, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow_details(turns: Sequence[Turn]) -> Details:
        if len(turns) < PAGE_TURNS:
            is_asked.set()
            await may_go_on.wait()
        return Details()

    app = Conversation()
    async with app.run_test(size=(80, 12)) as pilot:
        await app.transcript.show(turns(2 * PAGE_TURNS), slow_details)
        await until(lambda: app.transcript.scroll_y > 0, "the end is shown")
        app.transcript.scroll_home(animate=False)
        await is_asked.wait()
        await app.transcript.go_to_beginning()
        may_go_on.set()
        await pilot.pause()

        assert [view.turn.id for view in app.query(TurnView)] == [str(number) for number in range(PAGE_TURNS)]
