"""Random schemas and values: what the grammar and the check accept together is valid, and little else is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice, permutations, product

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import JsonSchemaFormat
from appliance.structured.admission import Admitted, admit
from appliance.structured.canonical import canonical_text
from tests.unit.structured.scripted_model import COMPILER, VOCABULARY

NAMES = st.sampled_from(["a", "b", "c", "kind"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([0.5, 2.0, -1.5]),
    st.sampled_from(["", "x", "yy", "zzz"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c", "kind", "d"]), inner, max_size=3),
    ),
    max_leaves=5,
)
COUNTS = st.integers(0, 3)


def _leaves() -> st.SearchStrategy[object]:
    return st.one_of(
        st.booleans(),
        st.sampled_from(["null", "boolean", "integer", "number", "string", "object", "array"]).map(
            lambda kind: {"type": kind}
        ),
        st.lists(SCALARS, min_size=1, max_size=3, unique_by=json.dumps).map(lambda values: {"enum": values}),
        SCALARS.map(lambda value: {"const": value}),
        COUNTS.map(lambda count: {"type": "string", "minLength": count}),
        COUNTS.map(lambda count: {"type": "string", "maxLength": count}),
        st.integers(-2, 5).map(lambda bound: {"type": "number", "minimum": bound}),
        st.integers(-2, 5).map(lambda bound: {"type": "integer", "exclusiveMaximum": bound}),
        st.integers(2, 3).map(lambda factor: {"type": "integer", "multipleOf": factor}),
        COUNTS.map(lambda bound: {"minimum": bound}),
    )


def _compound(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    properties = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": properties},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "minProperties": COUNTS,
            "maxProperties": COUNTS,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "propertyNames": st.sampled_from([{"maxLength": 1}, {"enum": ["a", "b"]}, {"pattern": "^[ab]"}]),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "contains": inner,
        },
    )
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        objects,
        arrays,
        branches.map(lambda parts: {"anyOf": parts}),
        branches.map(lambda parts: {"oneOf": parts}),
        branches.map(lambda parts: {"allOf": parts}),
        inner.map(lambda part: {"not": part}),
        st.tuples(inner, inner, inner).map(
            lambda three: {"if": three[0], "then": three[1], "else": three[2]}
        ),
        st.tuples(objects, inner).map(lambda two: {**two[0], "not": two[1]}),
        st.tuples(objects, branches).map(lambda two: {**two[0], "anyOf": two[1]}),
        st.tuples(objects, inner, inner).map(lambda three: {**three[0], "if": three[1], "then": three[2]}),
    )


SCHEMAS = st.recursive(_leaves(), _compound, max_leaves=6)


def grammar_accepts(admitted: Admitted, text: str) -> bool:
    constraint = COMPILER.compile(admitted).start()
    tokens = VOCABULARY.tokenize(text)
    if constraint.count_allowed(tokens) < len(tokens):
        return False
    constraint.accept(tokens)
    return constraint.can_stop


def accepts(admitted: Admitted, text: str) -> bool:
    return grammar_accepts(admitted, text) and not admitted.problems(text)


def orderings(value: object) -> Iterator[object]:
    """The value with the keys of its objects in every order: which one is written is the grammar's choice."""
    if isinstance(value, list):
        yield from (list(items) for items in product(*(list(orderings(item)) for item in value)))
    elif isinstance(value, dict):
        for keys in permutations(value):
            inner = product(*(list(orderings(value[key])) for key in keys))
            yield from (dict(zip(keys, items, strict=True)) for items in inner)
    else:
        yield value


def texts_of(schema: object, value: object) -> list[str]:
    """The text in the schema's order, then the others, within reason."""
    values = [value, *islice(orderings(value), 40)]
    return [canonical_text(schema, values[0]), *(canonical_text(True, item) for item in values)]  # type: ignore[arg-type]


def _is_valid(schema: object, value: object) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)  # type: ignore[arg-type]


@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=8))
@settings(max_examples=400, deadline=None)
def test_open_schemas_accept_exactly_the_valid_values(schema: object, values: list[object]) -> None:
    try:
        admitted = admit(JsonSchemaFormat(schema_json=json.dumps(schema)), closes_objects=False)
    except SchemaRejectedError:
        assert not any(_is_valid(schema, value) for value in values)
        return
    for value in values:
        accepted = any(accepts(admitted, text) for text in texts_of(schema, value))
        assert accepted == _is_valid(schema, value), value


@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_what_is_reported_as_enforced_needs_no_check(schema: object, values: list[object]) -> None:
    try:
        admitted = admit(JsonSchemaFormat(schema_json=json.dumps(schema)))
    except SchemaRejectedError:
        return
    for value in values:
        text = canonical_text(schema, value)  # type: ignore[arg-type]
        if admitted.is_exact and grammar_accepts(admitted, text):
            assert admitted.problems(text) == []
        if accepts(admitted, text):
            assert _is_valid(schema, value)
