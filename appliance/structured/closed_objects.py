"""Which property names a schema mentions in place: what a closed object may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from appliance.structured.document import JsonObject, SchemaDocument
from appliance.structured.json_text import JsonValue

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentions:
    """Names and name patterns in order of appearance.

    `is_open`: a part that always applies lets any further name in. `has_open_branch`: an alternative does.
    """

    names: Names = ()
    patterns: Names = ()
    is_open: bool = False
    has_open_branch: bool = False


def union(*groups: Iterable[str]) -> Names:
    """Join names in order, each once."""
    return tuple(dict.fromkeys(name for group in groups for name in group))


class ClosedObjects:
    """Finds the mentions of subschemas, following references."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._known: dict[int, Mentions] = {}
        self._active: set[int] = set()

    def mentions(self, schema: JsonValue) -> Mentions:
        """Return what a subschema mentions in place."""
        if not isinstance(schema, dict):
            return Mentions()
        known = self._known.get(id(schema))
        if known is not None:
            return known
        if id(schema) in self._active:
            return Mentions()
        self._active.add(id(schema))
        try:
            found = self.mentions_without(schema, "")
        finally:
            self._active.discard(id(schema))
        self._known[id(schema)] = found
        return found

    def mentions_without(self, schema: JsonObject, left_out: str) -> Mentions:
        """Return what a subschema mentions in place, one keyword left out."""
        names: list[Iterable[str]] = []
        needed: list[Iterable[str]] = []
        patterns: list[Iterable[str]] = []
        is_open = False
        has_open_branch = False
        for keyword, value in self._document.constraints(schema).items():
            if keyword == left_out:
                continue
            (names if keyword == "properties" else needed).append(_own_names(keyword, value))
            if keyword == "patternProperties" and isinstance(value, dict):
                patterns.append(value)
            is_open = is_open or (
                keyword in ("additionalProperties", "unevaluatedProperties") and value is not False
            )
            for always, inner in self._in_place(schema, keyword, value):
                found = self.mentions(inner)
                names.append(found.names)
                patterns.append(found.patterns)
                is_open = is_open or (always and found.is_open)
                has_open_branch = has_open_branch or found.has_open_branch or (not always and found.is_open)
        return Mentions(
            names=union(*names, *needed),
            patterns=union(*patterns),
            is_open=is_open,
            has_open_branch=has_open_branch,
        )

    def order(self, schema: JsonObject) -> Names:
        """Return the names a subschema mentions in place, in the order in which they are generated.

        It is the order of appearance. `additionalProperties` speaks of the names beside it, so these come
        first where it is given.
        """
        constraints = self._document.constraints(schema)
        names = self.mentions(schema).names
        properties = constraints.get("properties")
        if constraints.get("additionalProperties", True) is True or not isinstance(properties, dict):
            return names
        return union(properties, names)

    def _in_place(
        self, schema: JsonObject, keyword: str, value: JsonValue
    ) -> Iterator[tuple[bool, JsonValue]]:
        if keyword == "$ref" and isinstance(value, str) and not self._document.is_meta_schema(value):
            yield True, self._document.resolve(schema, value)
        elif keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            yield from ((keyword == "allOf", item) for item in value)
        elif keyword in ("if", "then", "else"):
            yield False, value
        elif keyword in ("dependentSchemas", "dependencies") and isinstance(value, dict):
            yield from ((False, item) for item in value.values() if isinstance(item, dict))


def _own_names(keyword: str, value: JsonValue) -> list[str]:
    if keyword == "properties" and isinstance(value, dict):
        return list(value)
    if keyword == "required" and isinstance(value, list):
        return [name for name in value if isinstance(name, str)]
    if keyword in ("dependentRequired", "dependencies") and isinstance(value, dict):
        names = list(value)
        for needed in value.values():
            if isinstance(needed, list):
                names.extend(name for name in needed if isinstance(name, str))
        return names
    return []
