"""A long answer is shown in parts that, joined, are the answer; no block is cut."""

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.answer_parts import MOST_BLOCKS, parts_of

BLOCKS = [
    "A paragraph.",
    "# Heading",
    "```\ncode\n\n# no heading\n```",
    "- a\n- b",
    "1. one\n\n2. two",
    "> said",
]


@given(st.lists(st.sampled_from(BLOCKS), max_size=40))
def test_the_parts_of_any_answer_are_the_answer(blocks: list[str]) -> None:
    text = "\n\n".join(blocks)

    assert "".join(parts_of(text)) == text


def test_a_long_answer_has_parts_of_a_few_blocks_each() -> None:
    text = "\n\n".join(f"paragraph {number}" for number in range(MOST_BLOCKS * 3))

    parts = parts_of(text)

    assert [part.count("paragraph") for part in parts] == [MOST_BLOCKS] * 3


def test_code_that_looks_like_blocks_stays_in_one_part() -> None:
    code = "```\n" + "\n\n".join(f"# line {number}" for number in range(MOST_BLOCKS * 3)) + "\n```"

    assert parts_of(code) == [code]


def test_a_list_is_not_parted_from_what_may_still_belong_to_it() -> None:
    items = "\n\n".join(["p"] * MOST_BLOCKS) + "\n\n- item\n\n"
    doubtful = items + "perhaps a paragraph of the item"

    assert parts_of(doubtful, after=len(items)) == [doubtful]
    assert parts_of(items + "# Heading", after=len(items)) == [items, "# Heading"]
