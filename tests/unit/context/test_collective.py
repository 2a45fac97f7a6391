from __future__ import annotations

import pytest

from appliance.context.collective import asks_for_all


@pytest.mark.parametrize(
    "question",
    [
        "How many contracts mention a penalty?",
        "List all suppliers",
        "list every deadline in the contracts",
        "Summarise all documents",
        "Summarize the whole book",
        "Which of the contracts end in 2025?",
        "What is the total number of invoices?",
        "What is the most common complaint?",
        "Do all reports mention risk?",
        "How often is the CEO named?",
        "Wie viele Verträge laufen aus?",
        "Nenne alle Kunden",
        "有多少份合同提到违约金？",
    ],
)
def test_questions_about_everything_are_recognised(question: str) -> None:
    assert asks_for_all(question)


@pytest.mark.parametrize(
    "question",
    [
        "How many points did the Panthers defense surrender?",
        "When may I carry over leave?",
        "Who wrote the report?",
        "What does the contract say about all-day meetings?",
        "Wie lang ist die Kündigungsfrist?",
        "How many days of leave do I have?",
    ],
)
def test_questions_with_one_place_to_look_are_not(question: str) -> None:
    assert not asks_for_all(question)
