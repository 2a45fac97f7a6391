"""What each JSON Schema keyword is, by draft: where schemas nest, what constrains, what only annotates."""

from __future__ import annotations

from typing import Final, Literal

from appliance.core.errors import SchemaRejectedError
from appliance.structured.json_text import JsonValue

Draft = Literal[4, 6, 7, 2019, 2020]

SCHEMA_KEYWORDS: Final = frozenset(
    [
        "additionalProperties",
        "items",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "propertyNames",
        "additionalItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    ]
)
SCHEMA_LIST_KEYWORDS: Final = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
SCHEMA_MAP_KEYWORDS: Final = frozenset(
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"]
)
ANNOTATIONS: Final = frozenset(
    [
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$comment",
        "$defs",
        "definitions",
        "$vocabulary",
        "title",
        "description",
        "default",
        "examples",
        "readOnly",
        "writeOnly",
        "deprecated",
        "contentMediaType",
        "contentEncoding",
        "contentSchema",
    ]
)
CONSTRAINTS: Final = frozenset(
    [
        "type",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "required",
        "minProperties",
        "maxProperties",
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]
)
TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
OBJECT_KEYWORDS: Final = frozenset(
    [
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
        "propertyNames",
        "dependentRequired",
        "dependencies",
        "dependentSchemas",
        "unevaluatedProperties",
    ]
)
ARRAY_KEYWORDS: Final = frozenset(
    [
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "minContains",
        "maxContains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "unevaluatedItems",
    ]
)
STRING_KEYWORDS: Final = frozenset(["minLength", "maxLength", "pattern", "format"])
NUMBER_KEYWORDS: Final = frozenset(
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
)

_INTRODUCED: Final[dict[str, Draft]] = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "unevaluatedProperties": 2019,
    "unevaluatedItems": 2019,
    "minContains": 2019,
    "maxContains": 2019,
    "$recursiveRef": 2019,
    "prefixItems": 2020,
    "$dynamicRef": 2020,
}
_REMOVED: Final[dict[str, Draft]] = {"additionalItems": 2020, "dependencies": 2019, "$recursiveRef": 2020}
_DRAFT_MARKS: Final[tuple[tuple[str, Draft], ...]] = (
    ("draft-04", 4),
    ("draft-06", 6),
    ("draft-07", 7),
    ("2019-09", 2019),
    ("2020-12", 2020),
)


def draft_of(schema: JsonValue) -> Draft:
    """Tell the draft a schema is written in; without `$schema` it is 2020-12.

    Raises:
        SchemaRejectedError: `$schema` names a draft before 4.
    """
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return 2020
    for mark, draft in _DRAFT_MARKS:
        if mark in named:
            return draft
    if any(mark in named for mark in ("draft-01", "draft-02", "draft-03")):
        raise SchemaRejectedError(
            f"the schema is written for {named}, which is older than draft 4",
            pointer="/$schema",
            keyword="$schema",
            hint="write it for https://json-schema.org/draft/2020-12/schema",
        )
    return 2020


def is_constraint(keyword: str, draft: Draft) -> bool:
    """Whether a keyword constrains values in a draft.

    `dependencies` still does in 2019-09 and 2020-12: validators keep it for compatibility.
    """
    if keyword not in CONSTRAINTS or draft < _INTRODUCED.get(keyword, 4):
        return False
    return keyword == "dependencies" or draft < _REMOVED.get(keyword, 9999)
