"""Rewrite the keywords that look at one value by itself: strings, numbers, arrays and objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from appliance.core.errors import SchemaRejectedError
from appliance.structured.document import JsonObject, SchemaDocument
from appliance.structured.formats import BUILT_IN_CHECKS, GRAMMAR_PATTERNS, OWN_CHECKS
from appliance.structured.grammar import leaf_error
from appliance.structured.json_text import JsonValue
from appliance.structured.keywords import NUMBER_KEYWORDS
from appliance.structured.patterns import UntranslatablePatternError, full_match, to_grammar_pattern
from appliance.structured.report import Enforcement, StructuredLimits
from appliance.structured.validator import SchemaValidator

_IN_PLACE: Final = (
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
    "if",
    "dependentSchemas",
    "$dynamicRef",
    "$recursiveRef",
)
_REPEATS: Final = "generated as it says; that no name repeats is checked"
_MAX_FACTOR: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """A keyword that the grammar does not hold, and why."""

    keyword: str
    note: str
    status: Enforcement = "checked_after"


class LeafKeywords:
    """Rewrites everything of a schema but its alternatives and references."""

    def __init__(
        self,
        document: SchemaDocument,
        limits: StructuredLimits,
        child: Callable[[JsonValue], JsonValue],
        *,
        drops_patterns: bool,
        drops_counts: bool,
    ) -> None:
        self._document = document
        self._limits = limits
        self._child = child
        self._drops_patterns = drops_patterns
        self._drops_counts = drops_counts

    def rewrite(self, schema: JsonObject, constraints: JsonObject, relaxed: list[Relaxed]) -> JsonObject:
        """Return the part for the grammar; add to `relaxed` what it leaves out."""
        place = self._document.pointer(schema) or ""
        self._refuse_above(place, constraints, "minLength", self._limits.string_characters, "characters")
        self._refuse_above(place, constraints, "minItems", self._limits.array_items, "items")
        self._refuse_wide(place, constraints)
        kinds = constraints.get("type")
        base: JsonObject = {} if kinds is None else {"type": kinds}
        if kinds is None or "string" in kinds:  # type: ignore[operator]
            base.update(self._string(constraints, relaxed))
        if kinds is None or "number" in kinds or "integer" in kinds:  # type: ignore[operator]
            base.update(self._number(constraints, relaxed))
        if kinds is None or "array" in kinds:  # type: ignore[operator]
            base.update(self._array(constraints, relaxed))
        if kinds is None or "object" in kinds:  # type: ignore[operator]
            base.update(self._object(constraints, relaxed))
        return base

    def grammar_patterns(self, patterns: Iterable[str]) -> tuple[str, ...] | None:
        """Translate property name patterns; `None` when the grammar cannot hold them together."""
        if self._drops_patterns:
            return None
        try:
            translated = tuple(to_grammar_pattern(pattern) for pattern in patterns)
        except UntranslatablePatternError:
            return None
        probe: JsonObject = {"type": "object", "patternProperties": dict.fromkeys(translated, True)}
        return None if leaf_error(json.dumps(probe)) else translated

    def _string(self, constraints: JsonObject, relaxed: list[Relaxed]) -> JsonObject:
        lengths = _only(constraints, "minLength", "maxLength")
        pattern = self._pattern(constraints.get("pattern"), relaxed)
        format_pattern = self._format(constraints.get("format"), relaxed)
        attempts: list[tuple[JsonObject, tuple[str, ...]]] = [
            (_string_schema(lengths, pattern, format_pattern), ()),
            (_string_schema(lengths, pattern, None), ("format",)),
            (_string_schema({}, pattern, None), ("format", "minLength", "maxLength")),
            (_string_schema(lengths, None, None), ("format", "pattern")),
        ]
        for attempt, left_out in attempts:
            if not attempt or not leaf_error(json.dumps({"type": "string", **attempt})):
                _note(relaxed, constraints, left_out, "too complex for the grammar")
                return attempt
        _note(
            relaxed,
            constraints,
            ("format", "pattern", "minLength", "maxLength"),
            "too complex for the grammar",
        )
        return {}

    def _pattern(self, pattern: JsonValue, relaxed: list[Relaxed]) -> str | None:
        if not isinstance(pattern, str):
            return None
        if self._drops_patterns:
            relaxed.append(Relaxed(keyword="pattern", note="too complex for the grammar here"))
            return None
        try:
            translated = to_grammar_pattern(pattern)
        except UntranslatablePatternError as error:
            relaxed.append(Relaxed(keyword="pattern", note=f"not a regular language: {error}"))
            return None
        if error_text := leaf_error(json.dumps({"type": "string", "pattern": translated})):
            relaxed.append(Relaxed(keyword="pattern", note=error_text.splitlines()[0][:200]))
            return None
        return translated

    def _format(self, name: JsonValue, relaxed: list[Relaxed]) -> str | None:
        if not isinstance(name, str):
            return None
        if name in GRAMMAR_PATTERNS:
            if name not in OWN_CHECKS:
                relaxed.append(Relaxed(keyword="format", note="generated by a pattern, then checked exactly"))
            return GRAMMAR_PATTERNS[name]
        if name in BUILT_IN_CHECKS:
            relaxed.append(Relaxed(keyword="format", note="no pattern generates it"))
        else:
            note = f"{name!r} is no format of JSON Schema, so it only annotates"
            relaxed.append(Relaxed(keyword="format", note=note, status="annotation"))
        return None

    def _number(self, constraints: JsonObject, relaxed: list[Relaxed]) -> JsonObject:
        found = {key: constraints[key] for key in constraints if key in NUMBER_KEYWORDS}
        if not found:
            return {}
        kinds = constraints.get("type")
        kind = "integer" if kinds in ("integer", ["integer"]) else "number"
        for left_out in ((), ("multipleOf",), tuple(NUMBER_KEYWORDS)):
            kept = {key: value for key, value in found.items() if key not in left_out}
            factor = kept.get("multipleOf", 1)
            is_plain = isinstance(factor, (int, float)) and 1e-9 < factor < _MAX_FACTOR
            if is_plain and not leaf_error(json.dumps({"type": kind, **kept})):
                _note(relaxed, constraints, left_out, "out of the range the grammar can hold")
                return kept
        return {}

    def _array(self, constraints: JsonObject, relaxed: list[Relaxed]) -> JsonObject:
        found = self._items(constraints)
        self._item_counts(constraints, found, relaxed)
        if "unevaluatedItems" in constraints and "items" not in found:
            if any(key in constraints for key in (*_IN_PLACE, "contains")):
                relaxed.append(
                    Relaxed(keyword="unevaluatedItems", note="depends on which alternatives apply")
                )
            else:
                found["items"] = self._child(constraints["unevaluatedItems"])
        maximum = found.get("maxItems")
        if constraints.get("uniqueItems") is True and not (isinstance(maximum, int) and maximum <= 1):
            relaxed.append(Relaxed(keyword="uniqueItems", note="the grammar cannot compare items"))
        counted = ("contains", "minContains", "maxContains")
        _note(relaxed, constraints, counted, "the grammar cannot count matching items")
        return found

    def _items(self, constraints: JsonObject) -> JsonObject:
        items, prefix = constraints.get("items"), constraints.get("prefixItems")
        if self._document.draft <= 2019:
            prefix = items if isinstance(items, list) else None
            items = constraints.get("additionalItems") if isinstance(items, list) else items
        found: JsonObject = {}
        if isinstance(prefix, list):
            found["prefixItems"] = [self._child(item) for item in prefix]
        if items is not None and not isinstance(items, list):
            found["items"] = self._child(items)
        return found

    def _item_counts(self, constraints: JsonObject, found: JsonObject, relaxed: list[Relaxed]) -> None:
        minimum, maximum = _count(constraints, "minItems"), _count(constraints, "maxItems")
        if "contains" in constraints:
            minimum = max(
                minimum or 0, _count(constraints, "minContains") if "minContains" in constraints else 1
            )  # type: ignore[type-var]
        minimum = min(minimum, self._limits.array_items) if minimum is not None else None
        if minimum:
            found["minItems"] = minimum
        if maximum is not None and maximum <= self._limits.array_items:
            found["maxItems"] = maximum
        elif maximum is not None:
            relaxed.append(Relaxed(keyword="maxItems", note=f"above {self._limits.array_items} items"))

    @staticmethod
    def _refuse_above(place: str, constraints: JsonObject, keyword: str, limit: int, unit: str) -> None:
        value = constraints.get(keyword)
        if isinstance(value, (int, float)) and value > limit:
            raise SchemaRejectedError(
                f"{keyword} asks for at least {value} {unit}; {limit} is the limit",
                pointer=f"{place}/{keyword}",
                keyword=keyword,
                hint=f"ask for at most {limit} {unit} at once",
            )

    def _refuse_wide(self, place: str, constraints: JsonObject) -> None:
        properties, limit = constraints.get("properties"), self._limits.object_properties
        if isinstance(properties, dict) and len(properties) > limit:
            raise SchemaRejectedError(
                f"an object has {len(properties)} properties; {limit} is the limit",
                pointer=f"{place}/properties",
                keyword="properties",
                hint="ask for a part of the properties at a time",
            )

    def _object(self, constraints: JsonObject, relaxed: list[Relaxed]) -> JsonObject:
        found: JsonObject = {}
        properties = constraints.get("properties")
        if isinstance(properties, dict):
            found["properties"] = {name: self._child(inner) for name, inner in properties.items()}
        required = constraints.get("required")
        if isinstance(required, list) and required:
            found["required"] = required
        additional = self._additional(constraints)
        if additional is not None:
            found["additionalProperties"] = self._child(additional)
        self._pattern_properties(constraints, found, relaxed)
        if constraints.get("additionalProperties", False) is not False:
            relaxed.append(Relaxed(keyword="additionalProperties", note=_REPEATS))
        self._property_names(constraints, found, relaxed)
        self._property_counts(constraints, found, relaxed)
        return found

    @staticmethod
    def _additional(constraints: JsonObject) -> JsonValue:
        if "additionalProperties" in constraints:
            return constraints["additionalProperties"]
        if "unevaluatedProperties" in constraints and not any(key in constraints for key in _IN_PLACE):
            return constraints["unevaluatedProperties"]
        return None

    def _pattern_properties(self, constraints: JsonObject, found: JsonObject, relaxed: list[Relaxed]) -> None:
        patterns = constraints.get("patternProperties")
        if not isinstance(patterns, dict) or not patterns:
            return
        translated = self.grammar_patterns(patterns)
        if translated is None or len(set(translated)) < len(patterns):
            relaxed.append(
                Relaxed(keyword="patternProperties", note="the patterns overlap or are not regular")
            )
            found["additionalProperties"] = True
            return
        inner = [self._child(schema) for schema in patterns.values()]
        relaxed.append(Relaxed(keyword="patternProperties", note=_REPEATS))
        found["patternProperties"] = dict(zip(translated, inner, strict=True))

    def _property_names(self, constraints: JsonObject, found: JsonObject, relaxed: list[Relaxed]) -> None:
        names = constraints.get("propertyNames")
        if names is None or names is True:
            return
        note = "names of undeclared properties are checked"
        if not _is_self_contained(names):
            relaxed.append(Relaxed(keyword="propertyNames", note="it uses references"))
            return
        validator = SchemaValidator(names, self._document.draft)
        properties = found.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        kept = {name: inner if validator.is_valid(name) else False for name, inner in declared.items()}
        if declared:
            found["properties"] = kept
        if found.get("additionalProperties") is False and "patternProperties" not in found:
            return
        pattern = self._name_pattern(names)
        if pattern is None or "patternProperties" in found or self.grammar_patterns([]) is None:
            relaxed.append(Relaxed(keyword="propertyNames", note=note))
            return
        if leaf_error(json.dumps({"type": "object", "patternProperties": {pattern: True}})):
            relaxed.append(Relaxed(keyword="propertyNames", note=note))
            return
        found["patternProperties"] = {pattern: found.get("additionalProperties", True)}
        found["additionalProperties"] = False

    def _name_pattern(self, names: JsonValue) -> str | None:
        if not isinstance(names, dict):
            return None
        constraints = self._document.constraints(names)
        kinds = set(constraints) - {"type"}
        if constraints.get("type", "string") != "string":
            return None
        try:
            if kinds == {"pattern"} and isinstance(constraints["pattern"], str):
                return to_grammar_pattern(constraints["pattern"])
        except UntranslatablePatternError:
            return None
        if kinds and kinds <= {"minLength", "maxLength"}:
            low, high = _count(constraints, "minLength") or 0, _count(constraints, "maxLength")
            return f"^(?s:.{{{low},{'' if high is None else high}}})$"
        return None

    def _property_counts(self, constraints: JsonObject, found: JsonObject, relaxed: list[Relaxed]) -> None:
        counts = _only(constraints, "minProperties", "maxProperties")
        if not counts:
            return
        if not self._drops_counts and not any(key in constraints for key in _IN_PLACE):
            probe = {**found, **counts, "type": "object"}
            for key in ("properties", "patternProperties"):
                inner = probe.get(key)
                if isinstance(inner, dict):
                    probe[key] = {name: value is not False for name, value in inner.items()}
            if probe.get("additionalProperties") is not False:
                probe["additionalProperties"] = True
            if not leaf_error(json.dumps(probe)):
                found.update(counts)
                return
        _note(
            relaxed,
            constraints,
            ("minProperties", "maxProperties"),
            "the grammar cannot count properties here",
        )


def _string_schema(lengths: JsonObject, pattern: str | None, format_pattern: str | None) -> JsonObject:
    found = dict(lengths)
    if pattern is not None and format_pattern is not None:
        found["pattern"] = pattern
        found["allOf"] = [{"type": "string", "pattern": full_match(format_pattern)}]
    elif pattern is not None:
        found["pattern"] = pattern
    elif format_pattern is not None:
        found["pattern"] = full_match(format_pattern)
    return found


def _only(constraints: JsonObject, *keywords: str) -> JsonObject:
    return {keyword: constraints[keyword] for keyword in keywords if keyword in constraints}


def _count(constraints: JsonObject, keyword: str) -> int | None:
    value = constraints.get(keyword)
    return int(value) if isinstance(value, (int, float)) else None


def _note(relaxed: list[Relaxed], constraints: JsonObject, keywords: Iterable[str], note: str) -> None:
    relaxed.extend(Relaxed(keyword=keyword, note=note) for keyword in keywords if keyword in constraints)


def _is_self_contained(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return not any(key.startswith("$") and key.endswith("ef") for key in value) and all(
            _is_self_contained(item) for item in value.values()
        )
    return not isinstance(value, list) or all(_is_self_contained(item) for item in value)
