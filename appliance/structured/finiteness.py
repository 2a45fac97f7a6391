"""Whether a rewritten schema has a finite value: recursion without an end has none."""

from __future__ import annotations

from appliance.structured.json_text import JsonValue

_PREFIX = "#/$defs/"


def has_finite_value(schema: dict[str, JsonValue]) -> bool:
    """Whether some text can satisfy a schema made by the rewriter; `False` is certain, `True` is likely."""
    definitions = schema.get("$defs")
    named = definitions if isinstance(definitions, dict) else {}
    finite: set[str] = set()
    while True:
        found = {name for name, inner in named.items() if name not in finite and _ends(inner, finite)}
        if not found:
            return _ends(schema, finite)
        finite |= found


def _ends(schema: JsonValue, finite: set[str]) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.removeprefix(_PREFIX) not in finite:
        return False
    parts, branches = schema.get("allOf"), schema.get("anyOf")
    if isinstance(parts, list) and not all(_ends(part, finite) for part in parts):
        return False
    if isinstance(branches, list) and not any(_ends(branch, finite) for branch in branches):
        return False
    kinds = schema.get("type")
    kind = kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else kinds
    if kind == "object":
        return _object_ends(schema, finite)
    return kind != "array" or _array_ends(schema, finite)


def _object_ends(schema: dict[str, JsonValue], finite: set[str]) -> bool:
    required, properties = schema.get("required"), schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    names = required if isinstance(required, list) else []
    return all(_ends(declared.get(str(name), True), finite) for name in names)


def _array_ends(schema: dict[str, JsonValue], finite: set[str]) -> bool:
    minimum, prefix = schema.get("minItems"), schema.get("prefixItems")
    needed = minimum if isinstance(minimum, int) else 0
    first = prefix[:needed] if isinstance(prefix, list) else []
    rest = schema.get("items", True) if needed > len(first) else True
    return all(_ends(item, finite) for item in first) and _ends(rest, finite)
