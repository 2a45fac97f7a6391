"""Counts with their nouns."""

import pytest

from tui.counting import counted_things


@pytest.mark.parametrize(
    ("count", "plural", "text"),
    [
        (1, "summaries", "1 summary"),
        (2, "summaries", "2 summaries"),
        (1, "turns", "1 turn"),
        (1, "requests and receipts", "1 request or receipt"),
    ],
)
def test_one_of_many_has_its_own_noun(count: int, plural: str, text: str) -> None:
    assert counted_things(count, plural) == text
