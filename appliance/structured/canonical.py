"""Write a value as constrained generation would: the schema's property order, whole floats as integers."""

from __future__ import annotations

from appliance.structured.closed_objects import ClosedObjects
from appliance.structured.document import SchemaDocument
from appliance.structured.json_text import JsonValue, dump_json


def canonical_text(schema: JsonValue, value: JsonValue) -> str:
    """Return the one text of a value that the grammar of a schema can produce.

    Properties follow the order in which the schema names them, others come after them as they stand.
    """
    document = SchemaDocument(schema)
    return dump_json(_Orderer(document).order(schema, value, 0))


class _Orderer:
    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._closed = ClosedObjects(document)

    def order(self, schema: JsonValue, value: JsonValue, depth: int) -> JsonValue:
        if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
            return int(value)
        if depth > 60:
            return value
        if isinstance(value, list):
            return [self._item(schema, index, item, depth) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        names = self._names(schema, value, 0)
        ordered = [name for name in names if name in value]
        ordered += [name for name in value if name not in set(ordered)]
        return {name: self._member(schema, name, value[name], depth) for name in ordered}

    def _names(self, schema: JsonValue, value: dict[str, JsonValue], depth: int) -> list[str]:
        for listed in self._enumerations(schema, depth):
            if isinstance(listed, dict) and listed == value:
                return list(listed)
        return list(self._closed.order(schema)) if isinstance(schema, dict) else []

    def _enumerations(self, schema: JsonValue, depth: int) -> list[JsonValue]:
        if not isinstance(schema, dict) or depth > 10:
            return []
        constraints = self._document.constraints(schema)
        if "const" in constraints:
            return [constraints["const"]]
        listed = constraints.get("enum")
        return listed if isinstance(listed, list) else []

    def _member(self, schema: JsonValue, name: str, value: JsonValue, depth: int) -> JsonValue:
        for inner in self._in_place(schema, 0):
            properties = inner.get("properties")
            if isinstance(properties, dict) and name in properties:
                value = self.order(properties[name], value, depth + 1)
        for inner in self._in_place(schema, 0):
            additional = inner.get("additionalProperties")
            properties = inner.get("properties")
            declared = properties if isinstance(properties, dict) else {}
            if isinstance(additional, dict) and name not in declared:
                value = self.order(additional, value, depth + 1)
            patterns = inner.get("patternProperties")
            for pattern_schema in patterns.values() if isinstance(patterns, dict) else ():
                value = self.order(pattern_schema, value, depth + 1)
        return self.order(True, value, depth + 1) if not isinstance(value, dict) else value

    def _item(self, schema: JsonValue, index: int, value: JsonValue, depth: int) -> JsonValue:
        for inner in self._in_place(schema, 0):
            items, prefix = inner.get("items"), inner.get("prefixItems")
            if isinstance(items, list):
                prefix, items = items, inner.get("additionalItems")
            if isinstance(prefix, list) and index < len(prefix):
                value = self.order(prefix[index], value, depth + 1)
            elif isinstance(items, dict):
                value = self.order(items, value, depth + 1)
        return self.order(True, value, depth + 1) if not isinstance(value, dict) else value

    def _in_place(self, schema: JsonValue, depth: int) -> list[dict[str, JsonValue]]:
        if not isinstance(schema, dict) or depth > 10:
            return []
        constraints = self._document.constraints(schema)
        found = [constraints]
        reference = constraints.get("$ref")
        if isinstance(reference, str) and not self._document.is_meta_schema(reference):
            found += self._in_place(self._document.resolve(schema, reference), depth + 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            branches = constraints.get(keyword)
            for branch in branches if isinstance(branches, list) else ():
                found += self._in_place(branch, depth + 1)
        for keyword in ("then", "else", "if"):
            found += self._in_place(constraints.get(keyword), depth + 1)
        return found
