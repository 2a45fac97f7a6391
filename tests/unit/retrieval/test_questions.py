from __future__ import annotations

from appliance.retrieval.questions import Turn, other_wordings, standalone_question

TURNS = (Turn(role="user", text="How long is parental leave?"), Turn(role="assistant", text="14 months."))


def test_a_first_question_needs_no_model() -> None:
    def refuse(prompt: str) -> str:
        raise AssertionError(prompt)

    assert standalone_question("Who decides?", (), refuse) == "Who decides?"


def test_a_follow_up_is_told_in_full() -> None:
    seen: list[str] = []

    def write(prompt: str) -> str:
        seen.append(prompt)
        return '\n "Who decides on parental leave?"\nSome more talk'

    assert standalone_question("Who decides?", TURNS, write) == "Who decides on parental leave?"
    assert "user: How long is parental leave?" in seen[0]


def test_useless_writing_leaves_the_question_with_its_subject() -> None:
    for written in ("", "x" * 501, "assistant: I think"):
        found = standalone_question("Who decides?", TURNS, lambda prompt, written=written: written)
        assert found == "How long is parental leave? Who decides?"


def test_wordings_lose_their_list_marks_and_are_bounded() -> None:
    writer = other_wordings(lambda prompt: "1. first words\n- second\n\n* third\n4) fourth", count=3)
    assert writer("q") == ["first words", "second", "third"]
