"""The decoder of one constrained sequence: passes, drafts, second tries, budgets, streaming."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.requests import ChoiceFormat, JsonSchemaFormat, RegexFormat, ToolSpec
from appliance.structured.admission import admit
from appliance.structured.decoder import DecodeOptions
from appliance.structured.tool_calls import admit_tool_calls
from tests.unit.structured.scripted_model import by_seed, decode, follows

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name", "age"],
}
UNIQUE = {"type": "array", "items": {"enum": ["red", "blue", "green"]}, "uniqueItems": True, "maxItems": 3}
RECORDS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {f"field_{index}": {"type": "string"} for index in range(8)},
        "required": [f"field_{index}" for index in range(8)],
    },
}
SCHEMAS = {
    "person": PERSON,
    "unique": UNIQUE,
    "records": RECORDS,
    "contains": {"type": "array", "items": {"type": "integer"}, "contains": {"const": 3}, "maxItems": 6},
    "not": {"type": "string", "not": {"enum": ["abc", "name"]}, "maxLength": 6},
    "dates": {"type": "array", "items": {"type": "string", "format": "date"}, "maxItems": 3},
    "condition": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["x"]},
        "else": {"required": ["y"]},
    },
    "map": {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 4},
    "ambiguous": {"oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]},
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
                "required": ["v"],
            }
        },
    },
}


def schema_format(schema: object) -> JsonSchemaFormat:
    return JsonSchemaFormat(schema_json=json.dumps(schema, ensure_ascii=False))


def options(max_tokens: int = 200, **others: int | bool) -> DecodeOptions:
    return DecodeOptions(**{"max_tokens": max_tokens, "is_greedy": True, **others})


def test_forced_tokens_need_no_pass_of_their_own() -> None:
    text = '{"name": "abc", "age": 12}'
    decoder, outcome, _ = decode(schema_format(PERSON), follows(text), options(max_draft_tokens=0))
    assert (decoder.raw_text, outcome.state, outcome.finish_reason) == (text, "finished", "stop")
    assert decoder.value == {"name": "abc", "age": 12}
    assert decoder.counts.forward_passes + decoder.counts.forced_tokens == len(decoder.output_tokens)
    assert decoder.counts.forced_tokens >= 4


def test_a_value_the_prompt_states_is_drafted_and_accepted() -> None:
    text = '{"name": "Joan of Arc the elder", "age": 12}'
    prompt = "name: Joan of Arc the elder\nage: 12\n"
    drafted, _, _ = decode(schema_format(PERSON), follows(text), options(), prompt)
    plain, _, _ = decode(schema_format(PERSON), follows(text), options(max_draft_tokens=0), prompt)
    assert drafted.output_tokens == plain.output_tokens
    assert drafted.counts.accepted_drafts > 8
    assert drafted.counts.forward_passes < plain.counts.forward_passes / 2


def test_a_wrong_draft_changes_nothing_but_the_work() -> None:
    text = '{"name": "abc", "age": 12}'
    prompt = "name: blue the abc\nage: 2024\n"
    drafted, _, _ = decode(schema_format(PERSON), follows(text), options(), prompt)
    assert drafted.raw_text == text
    assert drafted.counts.drafted_tokens > drafted.counts.accepted_drafts


def test_the_streamed_text_is_the_text() -> None:
    text = '{"name": "日本 and 😀", "age": 12}'
    decoder, _, streamed = decode(schema_format(PERSON), follows(text), options())
    assert streamed == text == decoder.raw_text


def test_nothing_is_streamed_before_a_check_that_may_take_it_back() -> None:
    decoder, outcome, streamed = decode(schema_format(UNIQUE), follows('["red", "red"]'), options())
    assert outcome.state == "finished"
    assert streamed == decoder.raw_text
    assert decoder.counts.repairs > 0


@pytest.mark.parametrize(
    "schema, wanted",
    [
        (UNIQUE, '["red", "blue", "red"]'),
        (SCHEMAS["contains"], "[1, 2]"),
        (SCHEMAS["not"], '"abc"'),
        (SCHEMAS["ambiguous"], "12"),
        (SCHEMAS["map"], '{"a": true, "a": true}'),
    ],
)
def test_a_text_that_fails_the_check_is_taken_back_to_its_last_choice(schema: object, wanted: str) -> None:
    admitted = admit(schema_format(schema))
    assert admitted.problems(wanted)
    decoder, outcome, _ = decode(schema_format(schema), follows(wanted), options())
    assert (outcome.state, admitted.problems(decoder.raw_text)) == ("finished", [])
    assert decoder.counts.repairs >= 1
    assert decoder.raw_text != wanted


def test_arguments_of_a_call_that_fail_the_check_are_taken_back_too() -> None:
    tool = ToolSpec(
        name="paint",
        description="",
        parameters_json=json.dumps({"type": "object", "properties": {"tags": UNIQUE}, "required": ["tags"]}),
    )
    admitted = admit_tool_calls([tool], "auto")
    assert admitted is not None
    call = '<tool_call>\n{"name": "paint", "arguments": {"tags": ["red", "red"]}}\n</tool_call>'
    decoder, outcome, _ = decode(admitted, follows(f"the {call}"), options())
    assert outcome.state == "finished"
    assert decoder.counts.repairs >= 1
    assert decoder.raw_text.startswith('the <tool_call>\n{"name": "paint", "arguments": {"tags": ["red"')
    assert admitted.problems(decoder.raw_text) == []
    assert admitted.problems(call)[0].pointer == "/arguments/tags"


def test_without_second_tries_a_failed_check_is_a_typed_failure_that_keeps_the_text() -> None:
    decoder, outcome, streamed = decode(schema_format(UNIQUE), follows('["red", "red"]'), options(repairs=0))
    assert (outcome.state, streamed, decoder.raw_text) == ("failed", "", '["red", "red"]')
    assert outcome.problems[0].keyword == "uniqueItems"


def test_the_budget_closes_the_text_and_reports_length() -> None:
    endless = "[" + ", ".join(["12"] * 300) + "]"
    schema = {"type": "array", "items": {"type": "integer"}}
    decoder, outcome, _ = decode(schema_format(schema), follows(endless), options(40))
    assert (outcome.state, outcome.finish_reason) == ("finished", "length")
    assert len(decoder.output_tokens) <= 40
    assert set(json.loads(decoder.raw_text)) == {12}


def test_a_record_that_cannot_close_in_the_budget_is_dropped_whole() -> None:
    record = json.dumps({f"field_{index}": "abc" for index in range(8)})
    decoder, outcome, _ = decode(
        schema_format(RECORDS), follows("[" + ", ".join([record] * 9) + "]"), options(150)
    )
    assert (outcome.state, outcome.finish_reason) == ("finished", "length")
    assert len(decoder.output_tokens) <= 150
    assert all(len(record) == 8 for record in json.loads(decoder.raw_text))


def test_a_budget_no_text_fits_fails_before_anything_is_evaluated() -> None:
    decoder, outcome, _ = decode(schema_format(PERSON), follows(""), options(3))
    assert (outcome.state, decoder.counts.forward_passes) == ("failed", 0)
    assert outcome.problems[0].keyword == "max_tokens"


@pytest.mark.parametrize("choice", ["日本", "emoji 😀", 'say "hi"', "back\\slash", "red"])
def test_choices_are_exact_to_the_byte(choice: str) -> None:
    choices = ("日本", "emoji 😀", 'say "hi"', "back\\slash", "red", "red and blue")
    decoder, outcome, _ = decode(ChoiceFormat(choices=choices), follows(choice), options())
    assert (decoder.raw_text, outcome.state) == (choice, "finished")


def test_a_regex_matches_as_a_whole() -> None:
    decoder, outcome, _ = decode(RegexFormat(pattern="[0-9]{4}-[a-c]+"), follows("2024-abc"), options())
    assert (decoder.raw_text, outcome.state) == ("2024-abc", "finished")


@pytest.mark.parametrize("name", sorted(SCHEMAS))
@given(seed=st.integers(0, 10_000), max_tokens=st.integers(20, 160))
@settings(max_examples=12, deadline=None)
def test_whatever_the_logits_the_text_is_valid_or_the_failure_typed(
    name: str, seed: int, max_tokens: int
) -> None:
    output = schema_format(SCHEMAS[name])
    decoder, outcome, streamed = decode(output, by_seed(seed), options(max_tokens))
    assert len(decoder.output_tokens) <= max_tokens
    if outcome.state == "finished":
        assert admit(output).problems(decoder.raw_text) == []
        assert streamed == decoder.raw_text
    else:
        assert outcome.problems


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_drafts_do_not_change_the_greedy_text(seed: int) -> None:
    prompt = '{"name": "the red the red", "age": 12} ' * 3
    drafted, _, _ = decode(schema_format(PERSON), by_seed(seed), options(60), prompt)
    plain, _, _ = decode(schema_format(PERSON), by_seed(seed), options(60, max_draft_tokens=0), prompt)
    assert drafted.output_tokens == plain.output_tokens
