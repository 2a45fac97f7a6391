"""An answer on the screen: drawn as it grows as if it had been there at once, and copied as it was written."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection

from tui.widgets.answer_text import AnswerText
from tui.widgets.copy_code import CodeWanted

ANSWER = "One *two* three.\n\n```python\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| c | d |\n\n- e\n- f\n"


class Page(App[None]):
    def __init__(self, answer: AnswerText) -> None:
        super().__init__()
        self.answer = answer
        self.codes: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.answer

    def on_code_wanted(self, message: CodeWanted) -> None:
        self.codes.append(message.code)


def rows(answer: AnswerText) -> list[str]:
    return [answer.render_line(y).text.rstrip() for y in range(answer.size.height)]


async def test_an_answer_that_grew_looks_like_one_that_was_there_at_once() -> None:
    whole, grown = AnswerText(ANSWER), AnswerText()
    async with Page(whole).run_test(size=(40, 30)) as pilot:
        await pilot.pause()
        expected = rows(whole)
    async with Page(grown).run_test(size=(40, 30)) as pilot:
        for character in ANSWER:
            grown.append(character)
            await pilot.pause()
        assert rows(grown) == expected


async def test_words_that_a_row_parts_are_copied_on_one_line() -> None:
    answer = AnswerText("one two three four five six seven")
    async with Page(answer).run_test(size=(14, 10)) as pilot:
        await pilot.pause()
        selection = Selection(Offset(4, 0), Offset(23, 0))

        assert answer.size.height == 3
        assert answer.get_selection(selection) == ("two three four five", "\n")


async def test_a_click_above_code_wants_all_of_it() -> None:
    page = Page(AnswerText(ANSWER))
    async with page.run_test(size=(40, 30)) as pilot:
        await pilot.click(AnswerText, offset=(4, 2))
        await pilot.pause()

    assert page.codes == ["x = 1\n\ny = 2"]


async def test_another_width_breaks_other_rows() -> None:
    answer = AnswerText("one two three four five six seven")
    async with Page(answer).run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert rows(answer) == ["one two three four five six seven"]
        await pilot.resize_terminal(20, 10)
        await pilot.pause()

        assert rows(answer) == ["one two three four", "five six seven"]


@pytest.mark.parametrize("end", [". ", "。"])
async def test_a_paragraph_of_many_parts_is_copied_on_one_line(end: str) -> None:
    text = (f"It rains today{end}" * 1_000).strip()
    answer = AnswerText()
    async with Page(answer).run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        for start in range(0, len(text), 700):
            answer.append(text[start : start + 700])
            await pilot.pause()

        assert answer.get_selection(Selection(None, None)) == (text, "\n")


DECORATED = "one\n\n- item one two three\n\n---\n\n> said\n\n```\ncode\n```\n\nend\n\n---"


@pytest.mark.parametrize(
    ("pressed", "released", "copied"),
    [
        pytest.param((0, 3), (11, 3), "two three", id="indent of an item"),
        pytest.param((0, 5), (6, 7), "\n\nsaid", id="rule"),
        pytest.param((0, 7), (6, 7), "said", id="bar of a quote"),
        pytest.param((0, 10), (6, 10), "code", id="padding of code"),
        pytest.param((4, 9), (4, 10), "\ncod", id="head of code"),
        pytest.param((0, 1), (3, 2), "\n• it", id="empty row"),
        pytest.param((0, 13), (2, 14), "", id="rule at the end"),
    ],
)
async def test_what_is_chosen_from_a_decoration_on_begins_with_the_text_beside_it(
    pressed: tuple[int, int], released: tuple[int, int], copied: str
) -> None:
    answer = AnswerText(DECORATED)
    app = Page(answer)
    async with app.run_test(size=(12, 20)) as pilot:
        await pilot.pause()
        await pilot.mouse_down(AnswerText, offset=pressed)
        await pilot.hover(AnswerText, offset=released)
        await pilot.mouse_up(AnswerText, offset=released)
        await pilot.pause()

        assert app.screen.get_selected_text() == copied
