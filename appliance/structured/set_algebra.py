"""What a schema excludes, and whether two schemas exclude each other, where that can be known exactly."""

from __future__ import annotations

import json
from collections.abc import Callable

from appliance.structured.closed_objects import ClosedObjects, Names
from appliance.structured.document import JsonObject, SchemaDocument
from appliance.structured.json_text import JsonValue
from appliance.structured.keywords import TYPES

_MAX_DEPTH = 6
_ALL_TYPES = frozenset(TYPES) | {"integer"}
_COUNT_PAIRS = {
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
}
_BOUND_PAIRS = {
    "minimum": "exclusiveMaximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum",
    "exclusiveMaximum": "minimum",
}


class SetAlgebra:
    """Complements and disjointness over one document."""

    def __init__(self, document: SchemaDocument, closed: ClosedObjects) -> None:
        self._document = document
        self._closed = closed

    def complement(
        self, schema: JsonValue, context: JsonValue = None, depth: int = 0
    ) -> tuple[JsonValue, bool]:
        """Return a schema of the values that are not valid under a schema, and whether it is exact.

        `context` is the schema the values satisfy as well; its enumerations make complements exact. An
        inexact complement holds more values than it should, never fewer.
        """
        if isinstance(schema, bool):
            return not schema, True
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return True, False
        alternatives: list[JsonValue] = []
        is_exact = True
        for keyword, value in self._document.constraints(schema).items():
            found, exact = self._keyword_complement(schema, keyword, value, context, depth)
            is_exact = is_exact and exact
            alternatives.extend(found)
        alternatives = [alternative for alternative in alternatives if alternative is not False]
        if any(alternative is True for alternative in alternatives):
            return True, False
        if not alternatives:
            return False, is_exact
        return (alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}), is_exact

    def _keyword_complement(
        self, schema: JsonObject, keyword: str, value: JsonValue, context: JsonValue, depth: int
    ) -> tuple[list[JsonValue], bool]:
        if keyword == "type":
            return _type_complement(value)
        if keyword in ("enum", "const"):
            return self._values_complement(value if keyword == "enum" else [value], context)
        if keyword in _COUNT_PAIRS and isinstance(value, int):
            kind, other, step = _COUNT_PAIRS[keyword]
            return ([] if value + step < 0 else [{"type": kind, other: value + step}]), True
        if keyword in _BOUND_PAIRS and isinstance(value, (int, float)) and not isinstance(value, bool):
            is_exact = self._document.draft > 4
            return [{"type": "number", _BOUND_PAIRS[keyword]: value}] if is_exact else [True], is_exact
        if keyword == "required" and isinstance(value, list):
            return [{"type": "object", "properties": {str(name): False}} for name in value], True
        return self._nested_complement(schema, keyword, value, context, depth)

    def _nested_complement(
        self, schema: JsonObject, keyword: str, value: JsonValue, context: JsonValue, depth: int
    ) -> tuple[list[JsonValue], bool]:
        if keyword == "properties" and isinstance(value, dict):
            return self._properties_complement(value, context, depth)
        if keyword == "not":
            return [value], True
        if keyword == "$ref" and isinstance(value, str) and not self._document.is_meta_schema(value):
            found, exact = self.complement(self._document.resolve(schema, value), context, depth + 1)
            return [found], exact
        if keyword in ("allOf", "anyOf") and isinstance(value, list):
            pairs = [self.complement(item, context, depth + 1) for item in value]
            is_exact = all(exact for _, exact in pairs)
            found_all = [found for found, _ in pairs]
            if keyword == "allOf":
                return found_all, is_exact
            if any(found is False for found in found_all):
                return [False], is_exact
            kept = [found for found in found_all if found is not True]
            return [{"allOf": kept} if kept else True], is_exact
        return [True], False

    def _properties_complement(
        self, properties: JsonObject, context: JsonValue, depth: int
    ) -> tuple[list[JsonValue], bool]:
        alternatives: list[JsonValue] = []
        is_exact = True
        for name, inner in properties.items():
            inner_context = self._listed_property(context, name)
            found, exact = self.complement(inner, inner_context, depth + 1)
            is_exact = is_exact and exact
            if found is not False:
                alternatives.append({"type": "object", "required": [name], "properties": {name: found}})
        return alternatives, is_exact

    def _values_complement(self, values: JsonValue, context: JsonValue) -> tuple[list[JsonValue], bool]:
        excluded = {_canonical(value) for value in values} if isinstance(values, list) else set()
        allowed = self.enumeration(context)
        if allowed is not None:
            kept = [value for value in allowed if _canonical(value) not in excluded]
            return [{"enum": kept} if kept else False], True
        kinds = {_kind_of(value) for value in values} if isinstance(values, list) else set()
        if kinds <= {"boolean", "null"}:
            other_types: list[JsonValue] = [kind for kind in TYPES if kind not in kinds]
            found: list[JsonValue] = [{"type": other_types}]
            if "boolean" in kinds:
                found.extend({"const": flag} for flag in (True, False) if _canonical(flag) not in excluded)
            return found, True
        return [True], False

    def enumeration(self, schema: JsonValue, depth: int = 0) -> list[JsonValue] | None:
        """Return every value a schema can allow, when it lists them."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        constraints = self._document.constraints(schema)
        if "const" in constraints:
            return [constraints["const"]]
        listed = constraints.get("enum")
        if isinstance(listed, list):
            return listed
        if constraints.get("type") == "boolean":
            return [True, False]
        reference = constraints.get("$ref")
        if isinstance(reference, str) and not self._document.is_meta_schema(reference):
            return self.enumeration(self._document.resolve(schema, reference), depth + 1)
        return None

    def _listed_property(self, schema: JsonValue, name: str) -> JsonValue:
        """Return what a property must satisfy, here or in a schema around, where that lists its values."""
        around = self._document.enclosing(schema) if isinstance(schema, dict) else ()
        found = [self._property(one, name) for one in (schema, *around)]
        return next((one for one in found if self.enumeration(one) is not None), found[0])

    def _property(self, schema: JsonValue, name: str, depth: int = 0) -> JsonValue:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        constraints = self._document.constraints(schema)
        properties = constraints.get("properties")
        if isinstance(properties, dict) and name in properties:
            return properties[name]
        reference = constraints.get("$ref")
        if isinstance(reference, str) and not self._document.is_meta_schema(reference):
            return self._property(self._document.resolve(schema, reference), name, depth + 1)
        return None

    def have_discriminator(self, branches: list[JsonValue]) -> bool:
        """Whether one required property takes different listed values in every object of the branches."""
        objects = [self._document.constraints(branch) for branch in branches if isinstance(branch, dict)]
        if len(objects) < len(branches) or not all(_only(constraints, "object") for constraints in objects):
            return False
        common = set.intersection(*(set(_strings(constraints.get("required"))) for constraints in objects))
        return any(self._tells_apart(name, objects) for name in common)

    def _tells_apart(self, name: str, objects: list[JsonObject]) -> bool:
        seen: set[str] = set()
        for constraints in objects:
            properties = constraints.get("properties")
            values = self.enumeration(properties.get(name)) if isinstance(properties, dict) else None
            texts = {_canonical(value) for value in values} if values is not None else None
            if texts is None or texts & seen:
                return False
            seen |= texts
        return True

    def are_disjoint(self, first: JsonValue, second: JsonValue, scope: Names | None, depth: int = 0) -> bool:
        """Whether it is certain that no value is valid under both.

        `scope` holds the names that a closing of the objects allows besides their own; `None`: not closed.
        """
        if first is False or second is False:
            return True
        if not isinstance(first, dict) or not isinstance(second, dict) or depth > _MAX_DEPTH:
            return False
        left, right = self._document.constraints(first), self._document.constraints(second)
        if not _types_of(left, self) & _types_of(right, self):
            return True
        checks: tuple[Callable[[], bool], ...] = (
            lambda: _values_disjoint(self.enumeration(first), self.enumeration(second)),
            lambda: _bounds_disjoint(left, right) or _bounds_disjoint(right, left),
            lambda: self._properties_disjoint(left, right, depth),
            lambda: (
                self._closed_disjoint(first, left, right, None)
                or self._closed_disjoint(second, right, left, None)
            ),
            # A closing is ours, not the schema's: values of each side must be outside the other.
            lambda: (
                self._closed_disjoint(first, left, right, scope)
                and self._closed_disjoint(second, right, left, scope)
            ),
            lambda: self._parts_disjoint(first, left, second, scope, depth),
            lambda: self._parts_disjoint(second, right, first, scope, depth),
        )
        return any(check() for check in checks)

    def _properties_disjoint(self, left: JsonObject, right: JsonObject, depth: int) -> bool:
        if not (_only(left, "object") or _only(right, "object")):
            return False
        mine, theirs = left.get("properties"), right.get("properties")
        if not isinstance(mine, dict) or not isinstance(theirs, dict):
            return False
        needed = {*_strings(left.get("required")), *_strings(right.get("required"))}
        return any(
            name in needed and self.are_disjoint(mine[name], theirs[name], None, depth + 1)
            for name in mine
            if name in theirs
        )

    def _closed_disjoint(
        self, schema: JsonObject, mine: JsonObject, theirs: JsonObject, scope: Names | None
    ) -> bool:
        if not (_only(mine, "object") or _only(theirs, "object")):
            return False
        is_closed = mine.get("additionalProperties") is False
        names: set[str] = set()
        properties = mine.get("properties")
        names.update(properties if isinstance(properties, dict) else ())
        if scope is not None and not is_closed:
            mentions = self._closed.mentions(schema)
            is_closed = not (mentions.is_open or mentions.has_open_branch) and bool(mentions.names or scope)
            names.update(mentions.names, scope)
            if mentions.patterns:
                return False
        if not is_closed or "patternProperties" in mine:
            return False
        return any(name not in names for name in _strings(theirs.get("required")))

    def _parts_disjoint(
        self, schema: JsonObject, mine: JsonObject, other: JsonObject, scope: Names | None, depth: int
    ) -> bool:
        reference = mine.get("$ref")
        if isinstance(reference, str) and not self._document.is_meta_schema(reference):
            target = self._document.resolve(schema, reference)
            if self.are_disjoint(target, other, scope, depth + 1):
                return True
        for keyword, combine in (("allOf", any), ("anyOf", all), ("oneOf", all)):
            parts = mine.get(keyword)
            if isinstance(parts, list) and combine(
                self.are_disjoint(part, other, None, depth + 1) for part in parts
            ):
                return True
        return False


def _canonical(value: JsonValue) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _kind_of(value: JsonValue) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds[type(value)]


def _strings(value: JsonValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _types_of(constraints: JsonObject, algebra: SetAlgebra) -> frozenset[str]:
    listed = constraints.get("type")
    names = {listed} if isinstance(listed, str) else set(_strings(listed))
    if not names:
        values = algebra.enumeration({**constraints}) if {"enum", "const"} & set(constraints) else None
        names = {_kind_of(value) for value in values} if values is not None else set(_ALL_TYPES)
    if "number" in names:
        names.add("integer")
    return frozenset(names)


def _only(constraints: JsonObject, kind: str) -> bool:
    return constraints.get("type") in (kind, [kind])


def _type_complement(value: JsonValue) -> tuple[list[JsonValue], bool]:
    names = {value} if isinstance(value, str) else set(_strings(value))
    is_exact = "integer" not in names or "number" in names
    others: list[JsonValue] = [kind for kind in TYPES if kind not in names]
    return [{"type": others} if others else False], is_exact


def _values_disjoint(first: list[JsonValue] | None, second: list[JsonValue] | None) -> bool:
    if first is None or second is None:
        return False
    return not {_canonical(value) for value in first} & {_canonical(value) for value in second}


def _bounds_disjoint(low: JsonObject, high: JsonObject) -> bool:
    number = _only(low, "number") or _only(low, "integer") or _only(high, "number") or _only(high, "integer")
    pairs = [("maximum", "minimum", number), ("maxLength", "minLength", _only(low, "string"))]
    pairs.append(("maxItems", "minItems", _only(low, "array")))
    for top, bottom, applies in pairs:
        ceiling, floor = low.get(top), high.get(bottom)
        if (
            applies
            and isinstance(ceiling, (int, float))
            and isinstance(floor, (int, float))
            and ceiling < floor
        ):
            return True
    return False
