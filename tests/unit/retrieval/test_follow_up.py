from __future__ import annotations

import pytest

from appliance.retrieval.follow_up import carried_words, leans, told_in_full


@pytest.mark.parametrize(
    ("before", "question", "told"),
    [
        (
            "What year did Nikola Tesla die?",
            "And where did he live?",
            "And where did he live? (Nikola Tesla)",
        ),
        ("How long is parental leave?", "And until when?", "And until when? (parental leave)"),
        ("Wo wurde Friedrich Ratzel geboren?", "Und wann starb er?", "Und wann starb er? (Friedrich Ratzel)"),
        ("莱茵峡谷是怎么形成的？", "它在哪里？", "它在哪里？ (莱茵峡谷是怎么形成的)"),
        ("How was the Rhine Gorge formed?", "Which towns?", "Which towns? (Rhine Gorge)"),
    ],
)
def test_what_a_follow_up_leans_on_is_carried_over(before: str, question: str, told: str) -> None:
    assert told_in_full(question, [before]) == told


@pytest.mark.parametrize(
    "question",
    [
        "Which Florida city has the biggest population?",
        "When does the lease end?",
        "What share of the applicants does Harvard admit?",
        "In welchem Jahr endete der Dreißigjährige Krieg in Europa?",
    ],
)
def test_a_question_that_stands_alone_is_left_as_it_is(question: str) -> None:
    assert not leans(question)
    assert told_in_full(question, ["What year did Nikola Tesla die?"]) == question


def test_a_follow_up_of_a_follow_up_reaches_back_to_the_subject() -> None:
    asked = [
        "Unrelated: what is the population of Bern today?",
        "Who led the Panthers in sacks?",
        "And in tackles?",
    ]

    assert carried_words("When did he retire?", asked) == ("tackles", "Panthers")


def test_what_the_question_says_itself_is_not_said_twice_and_nothing_before_carries_nothing() -> None:
    assert told_in_full("Where does the Rhine end, and its gorge?", ["How was the Rhine formed?"]) == (
        "Where does the Rhine end, and its gorge?"
    )
    assert told_in_full("And then?", []) == "And then?"
