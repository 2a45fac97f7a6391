"""Reading JSON text exactly, finished or not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.structured.json_text import dump_json, partial_json, pointer_of, scan_json

JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**12), 10**12),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_a_whole_text_reads_as_the_standard_library_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        scan = scan_json(text)
        assert (scan.is_complete, scan.value, scan.problems) == (True, json.loads(text), [])


@given(JSON_VALUES.filter(lambda value: isinstance(value, (list, dict))), st.data())
def test_no_prefix_of_a_text_is_broken_and_none_but_the_whole_is_complete(
    value: object, data: st.DataObject
) -> None:
    text = dump_json(value)  # type: ignore[arg-type]
    end = data.draw(st.integers(0, len(text) - 1))
    scan = scan_json(text[:end])
    assert (scan.is_complete, scan.error_at) == (False, -1)


@pytest.mark.parametrize(
    "text, value",
    [
        ("", None),
        ('{"name": "Al', {}),
        ('{"name": "Al"', {"name": "Al"}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": [1, 2,', {"a": [1, 2]}),
        ('[{"a": tru', [{}]),
        ("[12", []),
        ("12", 12),
    ],
)
def test_a_partial_object_holds_what_is_closed(text: str, value: object) -> None:
    assert partial_json(text) == value


@pytest.mark.parametrize(
    "text", ["{]", "[1 2]", '{"a" 1}', "[01]", "nul]", "[1,]x", '{"a": "\n"}', "[+1]", "{} x"]
)
def test_what_is_not_json_is_named_by_its_place(text: str) -> None:
    scan = scan_json(text)
    assert not scan.is_complete
    assert 0 <= scan.error_at <= len(text)


@pytest.mark.parametrize(
    "text, keyword",
    [
        ('{"a": 1, "b": {"x": 1, "x": 2}}', "duplicate key"),
        ("[1e400]", "number range"),
        ("[" + "9" * 5000 + "]", "number range"),
    ],
)
def test_what_readers_disagree_on_is_a_problem(text: str, keyword: str) -> None:
    assert [problem.keyword for problem in scan_json(text).problems] == [keyword]


def test_spans_say_where_each_value_stands() -> None:
    text = '{"a": [10, "x"], "b~/": null}'
    spans = {pointer_of(path): text[start:end] for path, (start, end) in scan_json(text).spans.items()}
    assert spans == {"": text, "/a": '[10, "x"]', "/a/0": "10", "/a/1": '"x"', "/b~0~1": "null"}


def test_nesting_beyond_the_limit_is_no_value_we_read() -> None:
    assert scan_json("[" * 256 + "]" * 256).is_complete
    assert scan_json("[" * 100_000).error_at == 256
