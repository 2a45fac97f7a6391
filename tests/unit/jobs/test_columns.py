"""A schema as columns."""

from __future__ import annotations

import json

import pytest

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import JsonSchemaFormat
from appliance.jobs.columns import columns_of
from appliance.structured.json_text import JsonValue
from appliance.structured.python_types import format_of_argument


def of(argument: str | dict[str, JsonValue]) -> JsonSchemaFormat:
    text = argument if isinstance(argument, str) else json.dumps(argument)
    return format_of_argument(text)


def test_every_field_may_be_null_while_it_is_asked_for() -> None:
    columns = columns_of(of("name, age int?"))

    asked = json.loads(columns.asked.schema_json)
    assert columns.names == ("name", "age")
    assert asked["required"] == ["name", "age"]
    age, absent = asked["properties"]["age"]["anyOf"]
    assert (age["type"], absent) == ("integer", {"type": "null"})


def test_what_the_schema_does_not_bound_is_bounded_while_it_is_asked_for() -> None:
    columns = columns_of(of("name, tags [str], size s|m, born date"))

    asked = json.loads(columns.asked.schema_json)["properties"]
    name, tags, size, born = (asked[field]["anyOf"][0] for field in ("name", "tags", "size", "born"))
    assert name["maxLength"] == tags["items"]["maxLength"] == 400
    assert size == {"enum": ["s", "m"]}
    assert "maxLength" not in born
    assert columns.problems({"name": "x" * 500, "tags": [], "size": "s", "born": "2024-01-01"}) == ()


def test_the_schema_as_given_judges_the_row() -> None:
    columns = columns_of(
        of(
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"maximum": 9}},
                "required": ["name"],
            }
        )
    )

    assert columns.problems({"name": None, "age": None}) == ("name was not found",)
    assert columns.problems({"name": "Ada", "age": None}) == ()
    (problem,) = columns.problems({"name": "Ada", "age": 10})
    assert problem.startswith("age: ")


def test_a_schema_behind_a_reference_has_columns() -> None:
    schema: JsonValue = {"$ref": "#/$defs/Row", "$defs": {"Row": {"type": "object", "properties": {"a": {}}}}}

    assert columns_of(of(schema)).names == ("a",)


@pytest.mark.parametrize("argument", ['{"type": "array"}', '{"type": "object"}', '{"$ref": "#/$defs/Gone"}'])
def test_a_schema_without_fields_is_refused(argument: str) -> None:
    with pytest.raises(SchemaRejectedError, match="a row needs fields"):
        columns_of(of(argument))
