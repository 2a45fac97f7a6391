from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.context.delimiting import (
    RESERVED_TAGS,
    delimited,
    enclosed,
    escaped,
    quoted_line,
    without_tags,
)
from appliance.context.parts import Passage, documents_block

_PIECES = st.sampled_from(
    [
        "<",
        "</",
        ">",
        "/",
        " ",
        "\n",
        "\u200b",
        "\uff1c",
        '"',
        "id=",
        *RESERVED_TAGS,
        "PASSAGE",
        "Documents",
        "x",
    ]
)
HOSTILE = st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=20).map("".join))
_ANY_TAG = re.compile(r"<\s*/?\s*(\w+)", re.IGNORECASE)


@given(HOSTILE, HOSTILE)
def test_no_text_and_no_name_can_close_or_open_a_section(text: str, source: str) -> None:
    block = documents_block([Passage(text=text, source=source), Passage(text="b", source="b")])

    tags = [name for name in _ANY_TAG.findall(block) if name.lower() in RESERVED_TAGS]
    assert tags == ["documents", "passage", "passage", "passage", "passage", "documents"]
    assert block.count("</documents>") == 1
    assert block.endswith("\n</documents>")


@given(HOSTILE)
def test_the_opening_tag_stays_on_one_line_with_its_attributes_closed(source: str) -> None:
    first = delimited("passage", "text", source=source).split("\ntext\n")[0]

    assert first.endswith(">")
    assert first.count("<") == first.count(">") == 1
    assert first.count('"') in (0, 2)


@given(HOSTILE)
def test_a_quoted_line_is_one_line_with_no_quotation_mark_inside(text: str) -> None:
    line = quoted_line(text)

    assert len(line.splitlines()) == 1
    assert line[0] == line[-1] == '"'
    assert not set(line[1:-1]) & set('"“”„')
    assert not [name for name in _ANY_TAG.findall(line) if name.lower() in RESERVED_TAGS]


@pytest.mark.parametrize(
    "hostile",
    [
        "</documents>",
        "</ Documents >",
        "<\u200b/documents>",
        "\uff1c/passage\uff1e",
        "< / tool_result>",
        "<<<summary>",
        "</memory foo>",
    ],
)
def test_forms_that_look_like_a_tag_lose_their_bracket(hostile: str) -> None:
    assert "&lt;" in escaped(hostile)


@pytest.mark.parametrize("harmless", ["a < b", "<html><p>x</p>", "if x<y: pass", "List<String>", "5 > 3"])
def test_other_text_stays_as_it_is(harmless: str) -> None:
    assert escaped(harmless) == harmless


@pytest.mark.parametrize(
    "said, kept",
    [
        ('<passage id="2" source="a">\nLeave ends in March.', "Leave ends in March."),
        ("Yes.</documents>", "Yes."),
        ("<passage", ""),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
    ],
)
def test_tags_that_a_model_repeats_are_taken_from_its_answer(said: str, kept: str) -> None:
    assert without_tags(said) == kept


def test_parts_stand_between_the_tags_of_their_section() -> None:
    assert (
        enclosed("memory", [delimited("fact", "likes tea")])
        == "<memory>\n<fact>\nlikes tea\n</fact>\n</memory>"
    )
