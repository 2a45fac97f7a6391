"""Formats generate only what their check accepts; patterns keep their language in translation."""

from __future__ import annotations

import json
import re
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.structured.formats import GRAMMAR_PATTERNS, is_date, is_time
from appliance.structured.pattern_example import pattern_example
from appliance.structured.patterns import UntranslatablePatternError, to_grammar_pattern
from appliance.structured.validator import validator_of

EXACT = ["date", "time", "date-time", "duration", "ipv4", "uuid", "json-pointer", "email", "uri", "ipv6"]


@pytest.mark.parametrize("name", EXACT)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_what_a_format_generates_its_check_accepts(name: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(GRAMMAR_PATTERNS[name], fullmatch=True))
    problems = validator_of(json.dumps({"format": name})).problems(text)
    # Lengths of labels are what a pattern of bounded size leaves out.
    assert problems == [] or len(text) > 63


@given(st.dates())
def test_every_day_of_the_calendar_is_a_date(day: date) -> None:
    assert is_date(day.isoformat())
    assert re.fullmatch(GRAMMAR_PATTERNS["date"], day.isoformat())


@pytest.mark.parametrize(
    "text", ["2023-02-29", "2024-13-01", "2024-00-10", "2024-1-1", "20240101", "２024-01-01", "1900-02-29"]
)
def test_what_is_no_day_is_no_date(text: str) -> None:
    assert not is_date(text)
    assert not re.fullmatch(GRAMMAR_PATTERNS["date"], text)


@pytest.mark.parametrize(
    "text, is_valid",
    [
        ("23:59:60Z", True),
        ("22:59:60Z", False),
        ("15:59:60-08:00", True),
        ("24:00:00Z", False),
        ("12:00:00", False),
    ],
)
def test_a_leap_second_stands_only_at_midnight_utc(text: str, is_valid: bool) -> None:
    assert is_time(text) is is_valid


@pytest.mark.parametrize(
    "pattern, inside, outside",
    [
        (r"^\d{3}[[]$", "123[", "123]"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^\cA$", "\x01", "A"),
        (r"^\u00e9$", "é", "e"),
        (r"^x{1,2}?$", "xx", "xxx"),
        (r"^[\w-]+$", "a-b", "a b"),
        (r"^\/a\-b$", "/a-b", "a-b"),
        (r"^(?<year>\d{4})$", "2024", "24"),
        (r"^[^\]]$", "x", "]"),
    ],
)
def test_a_pattern_keeps_its_language(pattern: str, inside: str, outside: str) -> None:
    from appliance.core.requests import JsonSchemaFormat
    from appliance.structured.admission import admit
    from tests.unit.structured.test_exactness import accepts

    admitted = admit(JsonSchemaFormat(schema_json=json.dumps({"type": "string", "pattern": pattern})))
    assert admitted.is_exact
    assert accepts(admitted, json.dumps(inside, ensure_ascii=False))
    assert not accepts(admitted, json.dumps(outside, ensure_ascii=False))


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(?<!a)b", r"(a)\1", r"\bword\b", "(?i)a", r"\k<x>"])
def test_what_is_not_regular_is_not_translated(pattern: str) -> None:
    with pytest.raises(UntranslatablePatternError):
        to_grammar_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]+:[0-9]{3}$",
        "^(abc|d)?x+$",
        r"^\d{4}-\d{2}$",
        "^[^a]+[.]java$",
        *(f"^(?:{p})$" for p in GRAMMAR_PATTERNS.values()),
    ],
)
def test_an_example_matches_its_pattern(pattern: str) -> None:
    translated = re.sub(r"\\u\{([0-9A-F]+)\}", lambda code: re.escape(chr(int(code[1], 16))), pattern)
    assert re.fullmatch(translated, pattern_example(pattern))
