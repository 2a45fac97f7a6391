from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.context.shortening import shorten_middle


async def count_words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


@given(st.text(max_size=400), st.integers(0, 60))
async def test_what_is_kept_fits_and_consists_of_the_two_ends(text: str, limit: int) -> None:
    kept = await shorten_middle(text, limit, count_words)

    assert await count_words(kept) <= limit
    if kept and kept != text:
        head, mark, tail = kept.partition("[… ")
        assert mark
        assert text.startswith(head.rstrip())
        assert text.endswith(tail.partition(" …]")[2].lstrip())


async def test_words_stay_whole_and_the_number_of_characters_left_out_is_right() -> None:
    text = " ".join(f"word{number}" for number in range(100))
    kept = await shorten_middle(text, 30, count_words)

    head, _, tail = kept.partition("\n[… ")
    left_out = re.match(r"(\d+) characters left out …\]\n", tail)
    assert left_out is not None
    ending = tail[left_out.end() :]
    assert set((head + " " + ending).split()) <= set(text.split())
    assert abs(len(text) - int(left_out.group(1)) - len(head) - len(ending)) <= 2
    assert await count_words(kept) > 20


@pytest.mark.parametrize("text", ["", "fits well"])
async def test_a_text_that_fits_stays_as_it_is(text: str) -> None:
    assert await shorten_middle(text, 2, count_words) == text
