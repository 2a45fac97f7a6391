"""A long answer is laid out in parts; joined they are the answer, and each costs little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.answer_parts import (
    MOST_BLOCKS,
    MOST_CHARACTERS,
    MOST_LINES,
    Part,
    code_blocks,
    grown,
    parts_of,
    plain_parser,
)

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


LINES = [
    "para",
    "- a",
    "* b",
    "1. one",
    "10. ten",
    "   - in",
    "    deep",
    "> said",
    "> - q",
    "# H",
    "---",
    "```",
    "",
    "",
]


@given(st.lists(st.sampled_from(LINES), max_size=30), st.integers(1, 12))
def test_parts_that_came_in_pieces_are_read_as_the_whole_is(lines: list[str], size: int) -> None:
    text = "\n".join(lines) + "\n"
    parts = [Part()]
    for start in range(0, len(text), size):
        parts += grown(parts.pop(), text[start : start + size])

    alone = [part.opener + part.source for part in parts]

    assert [one for part in alone for one in kinds(part)] == kinds(text)


def kinds(text: str) -> list[tuple[str, int, str]]:
    return [(token.type, token.level, token.content) for token in plain_parser().parse(text)]


@pytest.mark.parametrize(
    "block",
    [
        "**Title**\n\n- a\n- b\n\n",
        "10. **Title**\n   - a\n   - b\n",
        "- a\n\n> said\n\n",
        "> said\n>\n",
        "    code\n",
    ],
)
def test_an_answer_of_whatever_repeats_is_parted(block: str) -> None:
    parts = parts_of(block * 200)

    assert joined(parts) == block * 200
    assert max(part.source.count("\n") for part in parts) <= MOST_LINES + block.count("\n")


def test_a_list_numbered_with_ones_goes_on_counting_in_its_other_parts() -> None:
    parts = parts_of("")
    for _ in range(100):
        parts += grown(parts.pop(), "1. item\n")

    assert [part.first_number for part in parts] == [None, 41, 81]


def test_a_list_is_not_parted_from_what_may_still_belong_to_it() -> None:
    items = "\n\n".join(["p"] * (MOST_BLOCKS - 1)) + "\n\n- item\n\n"
    doubtful = items + "perhaps a paragraph of the item"

    assert [part.source for part in parts_of(doubtful)] == [doubtful]
    assert [part.source for part in parts_of(items + "# Heading")] == [items, "# Heading"]


def test_code_in_a_list_and_code_without_an_end_are_blocks_too() -> None:
    text = "- item\n\n  ```python\n  a\n  b\n  ```\n\n```\nc\n"

    assert code_blocks(text) == ["a\nb", "c"]
