from __future__ import annotations

from appliance.prompts import RenderedPrompt
from appliance.retrieval.questions import Turn, Write, other_wordings, standalone_question

TURNS = (Turn(role="user", text="How long is parental leave?"), Turn(role="assistant", text="14 months."))


def writing(text: str, seen: list[RenderedPrompt] | None = None) -> Write:
    async def write(prompt: RenderedPrompt) -> str:
        if seen is not None:
            seen.append(prompt)
        return text

    return write


async def test_a_first_question_needs_no_model() -> None:
    seen: list[RenderedPrompt] = []

    assert await standalone_question("Who decides?", (), writing("x", seen)) == "Who decides?"
    assert seen == []


async def test_a_follow_up_is_told_in_full() -> None:
    seen: list[RenderedPrompt] = []
    write = writing('\n "Who decides on parental leave?"\nSome more talk', seen)

    assert await standalone_question("Who decides?", TURNS, write) == "Who decides on parental leave?"
    assert "user: How long is parental leave?" in seen[0].user


async def test_useless_writing_leaves_the_question_with_its_subject() -> None:
    for written in ("", "x" * 501, "assistant: I think"):
        found = await standalone_question("Who decides?", TURNS, writing(written))
        assert found == "Who decides? (parental leave)"


async def test_wordings_lose_their_list_marks_and_are_bounded() -> None:
    write = writing("1. first words\n- second\n\nWhy, so?\n- Second.\n* third\n4) fourth")

    assert await other_wordings("why so", write, count=3) == ("first words", "second", "third")
