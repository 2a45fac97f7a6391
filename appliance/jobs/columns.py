"""Reads a schema as columns, and rewrites it so that a model may say of each field that it is not there.

A document, or a part of one, need not state every field. Without a way to say so, a constrained model would have
to invent something; so each field may be null while it is asked for, and the schema itself judges the whole row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import JsonSchemaFormat
from appliance.structured.document import parse_schema
from appliance.structured.json_text import JsonValue
from appliance.structured.report import StructuredLimits
from appliance.structured.validator import validator_of

_NULL: dict[str, JsonValue] = {"type": "null"}
_DEFINITIONS = ("$defs", "definitions", "$schema", "$id")
_MOST_COLUMNS = 64
# Small models go on writing digits or words without end; a field that the schema does not bound is bounded here.
LONGEST_TEXT_CHARACTERS = 400
_LARGEST_NUMBER = 10**20
_TEXT_BOUNDS = ("maxLength", "pattern", "format", "enum", "const")
_NUMBER_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The fields of a row. `asked` is the format the model fills in, in which each field may be null."""

    names: tuple[str, ...]
    required: frozenset[str]
    schema_json: str
    asked: JsonSchemaFormat

    def problems(self, values: dict[str, JsonValue]) -> tuple[str, ...]:
        """Say what keeps a row from satisfying the schema as it was given."""
        found = []
        missing = {name for name in self.names if values.get(name) is None}
        for problem in validator_of(self.schema_json).problems(dict(values)):
            name = problem.pointer.removeprefix("/").replace("~1", "/").replace("~0", "~")
            if name not in missing:
                found.append(f"{name}: {problem.message}" if name else problem.message)
            elif name in self.required:
                found.append(f"{name} was not found")
        return tuple(dict.fromkeys(found))


def columns_of(given: JsonSchemaFormat) -> Columns:
    """Return the columns of a schema whose value is an object.

    Raises:
        SchemaRejectedError: it is no such schema, or has too many fields.
    """
    schema = parse_schema(given.schema_json, StructuredLimits())
    target = _target(schema)
    properties = target.get("properties")
    if not isinstance(properties, dict) or not properties:
        raise SchemaRejectedError(
            "a row needs fields: the schema must be an object with properties",
            keyword="properties",
            hint='write {"type": "object", "properties": {...}} or a short form like "name, age int"',
        )
    if len(properties) > _MOST_COLUMNS:
        raise SchemaRejectedError(
            f"the schema has {len(properties)} fields; a row has at most {_MOST_COLUMNS}",
            keyword="properties",
            hint="extract in two runs",
        )
    required = target.get("required")
    names = tuple(properties)
    return Columns(
        names=names,
        required=frozenset(name for name in names if isinstance(required, list) and name in required),
        schema_json=given.schema_json,
        asked=JsonSchemaFormat(
            schema_json=json.dumps(_asked(schema, properties)), name=given.name, in_prompt=given.in_prompt
        ),
    )


def _target(schema: JsonValue) -> dict[str, JsonValue]:
    """Return the object schema, behind one reference where there is one, as Pydantic writes it."""
    if not isinstance(schema, dict):
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str) and "properties" not in schema:
        kept, _, name = reference.removeprefix("#/").partition("/")
        definitions = schema.get(kept)
        target = definitions.get(name) if isinstance(definitions, dict) else None
        return target if isinstance(target, dict) else {}
    return schema


def _asked(schema: JsonValue, properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    kept = schema if isinstance(schema, dict) else {}
    names: list[JsonValue] = list(properties)
    return {
        **{name: kept[name] for name in _DEFINITIONS if name in kept},
        "type": "object",
        "properties": {name: {"anyOf": [_bounded(field), _NULL]} for name, field in properties.items()},
        "required": names,
        "additionalProperties": False,
    }


def _bounded(field: JsonValue) -> JsonValue:
    """Bound a text, a number, or the texts and numbers of a list, where the schema says nothing."""
    if not isinstance(field, dict):
        return field
    match field.get("type"):
        case "string" if not any(bound in field for bound in _TEXT_BOUNDS):
            return {**field, "maxLength": LONGEST_TEXT_CHARACTERS}
        case "number" | "integer" if not any(bound in field for bound in _NUMBER_BOUNDS):
            return {**field, "minimum": -_LARGEST_NUMBER, "maximum": _LARGEST_NUMBER}
        case "array" if "items" in field:
            return {**field, "items": _bounded(field["items"])}
        case _:
            return field
