"""What is admitted, what is refused and why, and what the report says of each keyword."""

from __future__ import annotations

import json
import pickle
import resource

import pytest

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import ChoiceFormat, GrammarFormat, JsonSchemaFormat, OutputFormat, RegexFormat
from appliance.structured.admission import admit, audit
from tests.unit.structured.test_exactness import accepts, grammar_accepts


def schema_format(schema: object) -> JsonSchemaFormat:
    return JsonSchemaFormat(schema_json=schema if isinstance(schema, str) else json.dumps(schema))


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


REFUSED: dict[str, tuple[object, str, str]] = {
    "invalid JSON": ('{"type": ', "", ""),
    "no schema": ("[]", "", ""),
    "5 MB": ({"properties": {f"p{i}": {"description": "x" * 480} for i in range(10_000)}}, "", ""),
    "remote reference": (
        {"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "/properties/a/$ref", "$ref",
    ),
    "reference to nothing": ({"items": {"$ref": "#/$defs/x"}}, "/items/$ref", "$ref"),
    "reference to itself": ({"$ref": "#"}, "", "$ref"),
    "references in a ring": (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "/$defs/a", "$ref",
    ),
    "recursion without an end": (
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "", "",
    ),
    "crossed bounds": ({"type": "integer", "minimum": 5, "maximum": 1}, "", ""),
    "unknown type": ({"properties": {"a": {"type": "strng"}}}, "/properties/a/type", "type"),
    "broken pattern": ({"type": "string", "pattern": "("}, "/pattern", "pattern"),
    "a key twice": ('{"type": "string", "type": "object"}', "", "type"),
    "an old items list": ({"items": [{"type": "string"}]}, "/items", "items"),
    "a draft that is too old": ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema", "$schema"),
    "half a surrogate pair": ('{"enum": ["\\ud800"]}', "", ""),
    "too many items": ({"type": "array", "minItems": 10**9}, "/minItems", "minItems"),
    "too long a string": ({"properties": {"a": {"type": "string", "minLength": 10**12}}}, "/properties/a/minLength", "minLength"),
    "too deep": (nested(60), "", ""),
    "too deep to parse": ('{"not":' * 20_000 + "{}" + "}" * 20_000, "", ""),
    "a number JSON readers round": ({"const": 2**60 + 1}, "", "enum"),
    "required but not allowed": (
        {"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": False}, "", "",
    ),
}  # fmt: skip


def used_cpu_s() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_enforced_is_refused_in_time_with_its_place_and_a_way_out(name: str) -> None:
    schema, pointer, keyword = REFUSED[name]
    before = used_cpu_s()
    with pytest.raises(SchemaRejectedError) as caught:
        admit(schema_format(schema))
    assert used_cpu_s() - before < 2.0
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)
    assert len(caught.value.message) < 500


HOSTILE: dict[str, object] = {
    "10,000 texts": {"enum": [f"value number {i} {i * 7919 % 10007}" for i in range(10_000)]},
    "10,000 numbers": {"enum": list(range(10_000))},
    "10,000 objects": {"enum": [{"a": i} for i in range(10_000)]},
    "nested repeats": {"type": "string", "pattern": "^((a{1,100}){1,100}b{1,1000}){1,100}$"},
    "plus of plus": {"type": "string", "pattern": "^(((a+)+)+)+$", "maxLength": 100_000},
    "every word": {"type": "string", "pattern": "^(?:.*[a-z].*){30}$", "format": "email", "minLength": 100},
    "3,000 words": {
        "type": "string",
        "pattern": "^(" + "|".join(f"w{i}x*" for i in range(3_000)) + "){5,50}$",
    },
    "combinations": {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {f"a{i}_{j}": {"const": j}}, "required": [f"a{i}_{j}"]} for j in range(8)
                ]
            }
            for i in range(12)
        ]
    },
    "500 alternatives": {
        "oneOf": [
            {
                "type": "object",
                "properties": {"k": {"const": i}, "v": {"type": "string"}},
                "required": ["k", "v"],
            }
            for i in range(500)
        ]
    },
    "many dependencies": {
        "type": "object",
        "properties": {f"p{i}": {} for i in range(40)},
        "dependentRequired": {f"p{i}": [f"p{i + 1}"] for i in range(39)},
    },
    "doubling references": {
        "$defs": {
            **{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(30)},
            "d30": {"type": "string"},
        },
        "$ref": "#/$defs/d0",
    },
    "patterns that overlap": {
        "type": "object",
        "patternProperties": {f"(a|b){{{i},{i + 50}}}": {"type": "string"} for i in range(30)},
    },
    "8,000 properties": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(8_000)}},
    "a billion items": {"type": "array", "maxItems": 10**9},
    "tiny factor": {"type": "number", "multipleOf": 1e-300, "minimum": 1e300},
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_schemas_end_in_time_admitted_or_refused(name: str) -> None:
    before = used_cpu_s()
    statuses = {report.status for report in audit(schema_format(HOSTILE[name]))}
    assert used_cpu_s() - before < 2.0
    assert statuses <= {"enforced", "checked_after", "annotation"} or statuses == {"refused"}


def statuses_of(schema: object) -> dict[tuple[str, str], str]:
    return {
        (report.pointer, report.keyword): report.status for report in admit(schema_format(schema)).reports
    }


def test_each_keyword_is_reported_with_what_happens_to_it() -> None:
    schema = {
        "title": "T",
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "day": {"type": "string", "format": "date"},
            "site": {"type": "string", "format": "uri"},
            "odd": {"type": "string", "format": "topic"},
            "word": {"type": "string", "pattern": "^(?!x)[a-z]+$"},
        },
        "typo": 1,
    }
    assert statuses_of(schema) == {
        ("", "title"): "annotation",
        ("", "type"): "enforced",
        ("", "properties"): "enforced",
        ("", "typo"): "annotation",
        ("/properties/tags", "type"): "enforced",
        ("/properties/tags", "items"): "enforced",
        ("/properties/tags", "uniqueItems"): "checked_after",
        ("/properties/tags/items", "type"): "enforced",
        ("/properties/day", "type"): "enforced",
        ("/properties/day", "format"): "enforced",
        ("/properties/site", "type"): "enforced",
        ("/properties/site", "format"): "checked_after",
        ("/properties/odd", "type"): "enforced",
        ("/properties/odd", "format"): "annotation",
        ("/properties/word", "type"): "enforced",
        ("/properties/word", "pattern"): "checked_after",
    }


@pytest.mark.parametrize(
    "schema, keyword",
    [
        ({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"type": "object", "properties": {"a": {}, "bb": {}}, "propertyNames": {"maxLength": 1}, "additionalProperties": False}, "propertyNames"),
        ({"type": "object", "properties": {"k": {"enum": ["a", "b"]}, "x": {}}, "if": {"properties": {"k": {"const": "a"}}}, "then": {"required": ["x"]}}, "if"),
        ({"type": ["string", "null"], "not": {"type": "null"}}, "not"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "oneOf"),
        ({"oneOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "object", "properties": {"b": {}}, "required": ["b"]}]}, "oneOf"),
    ],
)  # fmt: skip
def test_what_can_be_rewritten_exactly_is_enforced(schema: object, keyword: str) -> None:
    assert statuses_of(schema)["", keyword] == "enforced"


KIND = {"type": "object", "properties": {"kind": {"enum": ["a", "b", "c"]}, "x": {}}, "required": ["kind"]}
IF_A = {"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}}


@pytest.mark.parametrize(
    "schema, pointer",
    [
        pytest.param({**KIND, "allOf": [IF_A]}, "/allOf/0", id="a part"),
        pytest.param(
            {**KIND, "if": {"properties": {"kind": {"const": "b"}}}, "else": IF_A}, "/else", id="else"
        ),
    ],
)
def test_a_condition_knows_the_values_that_a_schema_around_it_lists(schema: object, pointer: str) -> None:
    admitted = admit(schema_format(schema))
    assert statuses_of(schema)[pointer, "if"] == "enforced"
    assert grammar_accepts(admitted, '{"kind": "c"}')
    assert grammar_accepts(admitted, '{"kind": "a", "x": 1}')
    assert not grammar_accepts(admitted, '{"kind": "a"}')


def test_a_part_that_is_used_elsewhere_too_knows_nothing_of_what_stands_around_it() -> None:
    schema = {"properties": {"one": {**KIND, "allOf": [IF_A]}, "other": {"$ref": "#/properties/one/allOf/0"}}}
    assert statuses_of(schema)["/properties/one/allOf/0", "if"] == "checked_after"


def test_objects_are_closed_unless_the_schema_opens_them() -> None:
    closed = admit(schema_format({"type": "object", "properties": {"a": {"type": "integer"}}}))
    opened = admit(
        schema_format(
            {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}
        )
    )
    free = admit(schema_format({"type": "object"}))
    assert not grammar_accepts(closed, '{"a": 1, "b": 2}')
    assert grammar_accepts(opened, '{"a": 1, "b": 2}')
    assert grammar_accepts(free, '{"b": 2}')


def test_parts_of_an_object_are_closed_together() -> None:
    schema = {
        "type": "object",
        "allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}],
        "anyOf": [
            {"properties": {"c": {"type": "integer"}}, "required": ["c"]},
            {"properties": {"d": {"type": "integer"}}, "required": ["d"]},
        ],
    }
    admitted = admit(schema_format(schema))
    assert accepts(admitted, '{"a": 1, "b": 2, "c": 3}')
    assert not accepts(admitted, '{"a": 1, "c": "not of the branch that applies", "d": 3}')
    assert not accepts(admitted, '{"a": 1, "b": 2, "c": 3, "e": 4}')


@pytest.mark.parametrize(
    "text, is_accepted",
    [
        ('{"b": 1, "a": 2}', True),
        ('{"a": 2, "b": 1}', False),
        ('{"b":1,"a":2}', False),
        ('{ "b": 1, "a": 2}', False),
        ('{"b": 1, "a": 2} ', False),
        ('{"b": 1, "a": 2}\n', False),
    ],
)
def test_order_and_separators_are_fixed_and_nothing_follows(text: str, is_accepted: bool) -> None:
    integer = {"type": "integer"}
    admitted = admit(
        schema_format({"properties": {"b": integer, "a": integer}, "type": "object", "required": ["a", "b"]})
    )
    assert grammar_accepts(admitted, text) is is_accepted


@pytest.mark.parametrize(
    "text, is_valid",
    [
        ('"2024-02-29"', True),
        ('"2023-02-29"', False),
        ('"2000-02-29"', True),
        ('"1900-02-29"', False),
        ('"2024-04-31"', False),
    ],
)
def test_only_days_of_the_calendar_can_be_generated(text: str, is_valid: bool) -> None:
    assert grammar_accepts(admit(schema_format({"type": "string", "format": "date"})), text) is is_valid


@pytest.mark.parametrize(
    "output",
    [
        ChoiceFormat(choices=()),
        ChoiceFormat(choices=("a", "a")),
        ChoiceFormat(choices=("",)),
        RegexFormat(pattern="("),
        RegexFormat(pattern="(?=x)y"),
        GrammarFormat(grammar="start: undefined_rule"),
        GrammarFormat(grammar="%%"),
    ],
)
def test_other_formats_are_checked_too(output: OutputFormat) -> None:
    with pytest.raises(SchemaRejectedError):
        admit(output)


def test_an_admitted_format_crosses_a_process() -> None:
    admitted = admit(schema_format({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}))
    twin = pickle.loads(pickle.dumps(admitted))  # noqa: S301
    assert twin == admitted
    assert [problem.keyword for problem in twin.problems("[1, 1]")] == ["uniqueItems"]


def test_the_prompt_tells_the_shape_unless_it_is_not_wanted() -> None:
    schema = '{"type": "string", "description": "日本"}'
    assert '"日本"' in admit(JsonSchemaFormat(schema_json=schema)).prompt_text()
    assert admit(JsonSchemaFormat(schema_json=schema, in_prompt=False)).prompt_text() == ""
