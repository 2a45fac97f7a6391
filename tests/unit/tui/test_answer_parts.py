"""A long answer is laid out in parts; joined they are the answer, and each costs little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.answer_parts import MOST_BLOCKS, MOST_CHARACTERS, MOST_LINES, Part, grown, parts_of

BLOCKS = [
    "A paragraph.",
    "# Heading",
    "```\ncode\n\n# no heading\n```",
    "- a\n- b",
    "1. one\n\n2. two",
    "> said",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "word " * 1_000,
]
LONG_CODE = "```python\n" + "\n".join(f"line({number})" for number in range(150)) + "\n```"
LONG_TABLE = "| a |\n|---|\n" + "\n".join(f"| {number} |" for number in range(150))
LONG_LIST = "\n".join(f"{number}. item" for number in range(1, 150))


def joined(parts: list[Part]) -> str:
    return "".join(part.source for part in parts)


@given(st.lists(st.sampled_from(BLOCKS), max_size=40))
def test_the_parts_of_any_answer_are_the_answer(blocks: list[str]) -> None:
    text = "\n\n".join(blocks)

    assert joined(parts_of(text)) == text


@given(
    st.lists(st.sampled_from([*BLOCKS, LONG_CODE, LONG_TABLE, LONG_LIST]), max_size=6), st.integers(7, 300)
)
def test_an_answer_that_came_in_pieces_has_the_text_of_the_whole(blocks: list[str], size: int) -> None:
    text = "\n\n".join(blocks)
    parts = parts_of("")

    for start in range(0, len(text), size):
        parts += grown(parts.pop(), text[start : start + size])

    assert joined(parts) == text


def test_a_long_answer_has_parts_of_a_few_blocks_each() -> None:
    text = "\n\n".join(f"paragraph {number}" for number in range(MOST_BLOCKS * 3))

    assert [part.source.count("paragraph") for part in parts_of(text)] == [MOST_BLOCKS] * 3


@pytest.mark.parametrize("text", [LONG_CODE, LONG_TABLE, LONG_LIST], ids=["code", "table", "list"])
def test_a_long_block_goes_on_in_parts_of_their_own(text: str) -> None:
    parts = parts_of(text)

    assert len(parts) == 4
    assert all(part.source.count("\n") <= MOST_LINES + 1 for part in parts)
    assert [part.is_continued for part in parts] == [False, True, True, True]


def test_code_that_goes_on_is_still_read_as_code() -> None:
    first, *others = parts_of(LONG_CODE)

    assert first.opener == ""
    assert {part.opener for part in others} == {"```python\n"}


def test_a_paragraph_without_end_is_parted_at_a_sentence() -> None:
    text = "It rains today. " * (3 * MOST_CHARACTERS // 16)

    parts = parts_of(text)

    assert len(parts) > 2
    assert all(part.source.startswith("It rains") for part in parts)


def test_a_list_is_not_parted_from_what_may_still_belong_to_it() -> None:
    items = "\n\n".join(["p"] * (MOST_BLOCKS - 1)) + "\n\n- item\n\n"
    doubtful = items + "perhaps a paragraph of the item"

    assert [part.source for part in parts_of(doubtful)] == [doubtful]
    assert [part.source for part in parts_of(items + "# Heading")] == [items, "# Heading"]
