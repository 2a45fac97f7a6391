"""The line above an answer says how it ended."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from appliance.core.events import ModelIdentity
from appliance.memory.turns import AnswerRecord, Turn, TurnState
from tests.screen_text import screen_text
from tui.widgets.turn import TurnView


class OneTurn(App[None]):
    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn

    def compose(self) -> ComposeResult:
        yield TurnView(self.turn)


def answered(state: TurnState, record: AnswerRecord) -> Turn:
    return Turn(
        id="a",
        chat_id="c",
        parent_id="q",
        sequence=2,
        role="assistant",
        state=state,
        text="words",
        created_at_s=0.0,
        answer=record,
    )


@pytest.mark.parametrize(
    ("turn", "head"),
    [
        (
            answered("stopped", AnswerRecord(finish_reason="cancelled")),
            "Unfinished answer  stopped · k continues",
        ),
        (
            answered("stopped", AnswerRecord()),
            "Unfinished answer  cut off when the program ended · k continues",
        ),
        (answered("partial", AnswerRecord()), "Answer  writing"),
        (answered("done", AnswerRecord(model=ModelIdentity(provider="p", name="small"))), "small"),
    ],
    ids=["stopped", "killed", "written", "done"],
)
async def test_the_head_of_an_answer_says_how_it_ended(turn: Turn, head: str) -> None:
    app = OneTurn(turn)
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()

        assert screen_text(app).splitlines()[0].strip() == head
