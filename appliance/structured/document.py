"""A parsed schema with every subschema's place, and local references resolved to the subschema they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import unquote, urldefrag, urljoin

from appliance.core.errors import SchemaRejectedError
from appliance.structured.json_text import JsonValue
from appliance.structured.keywords import (
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    draft_of,
    is_constraint,
)
from appliance.structured.report import StructuredLimits

JsonObject = dict[str, JsonValue]
_META_SCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")


def parse_schema(schema_json: str, limits: StructuredLimits) -> JsonValue:
    """Parse schema text within the limits of size and depth.

    Raises:
        SchemaRejectedError: it is too large, too deep, not JSON, or names one key twice.
    """
    size = len(schema_json.encode("utf-8", errors="surrogatepass"))
    if size > limits.schema_bytes:
        raise SchemaRejectedError(
            f"the schema has {size} bytes; {limits.schema_bytes} is the limit",
            hint="keep the definitions the answer needs and remove the rest",
        )
    try:
        schema: JsonValue = json.loads(schema_json, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise SchemaRejectedError(
            f"the schema is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            hint="check the schema with a JSON formatter",
        ) from None
    except (RecursionError, ValueError) as error:
        raise SchemaRejectedError(f"the schema cannot be read: {str(error) or 'it nests too deep'}") from None
    _check_depth(schema, limits.schema_depth)
    if not isinstance(schema, (bool, dict)):
        raise SchemaRejectedError(
            f"a schema is an object or a boolean, not {json.dumps(schema)[:40]}",
            hint='write {"type": "object", "properties": {...}}',
        )
    return schema


def _without_duplicates(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    keys: JsonObject = {}
    for key, value in pairs:
        if key in keys:
            raise SchemaRejectedError(
                f"the schema names the key {key!r} twice in one object",
                keyword=key,
                hint="keep one of them",
            )
        keys[key] = value
    return keys


def _check_depth(schema: JsonValue, limit: int) -> None:
    level: list[JsonValue] = [schema]
    for _ in range(limit + 1):
        children: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict):
                children.extend(value.values())
            elif isinstance(value, list):
                children.extend(value)
        if not children:
            return
        level = children
    raise SchemaRejectedError(
        f"the schema nests deeper than {limit} levels", hint="move inner parts to $defs and refer to them"
    )


_ON_THE_SAME_VALUE = frozenset(("allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas"))


class SchemaDocument:
    """The index over one schema. Subschemas are known by identity; the document keeps them alive."""

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self.draft = draft_of(root)
        self._kept: list[JsonObject] = []
        self._pointers: dict[int, str] = {}
        self._bases: dict[int, str] = {}
        self._enclosing: dict[int, JsonObject] = {}
        self._targets: frozenset[int] | None = None
        self._anchors: dict[str, JsonValue] = {}
        self._resources: dict[str, JsonValue] = {"": root}
        if isinstance(root, dict):
            self._index(root, "", "")

    def pointer(self, schema: JsonObject) -> str | None:
        """Return where a subschema stands; `None` for one that a rewrite made."""
        return self._pointers.get(id(schema))

    def subschemas(self) -> Iterator[tuple[str, JsonObject]]:
        """Yield every subschema of the document with its pointer."""
        for schema in self._kept:
            pointer = self._pointers.get(id(schema))
            if pointer is not None:
                yield pointer, schema

    def enclosing(self, schema: JsonObject) -> Iterator[JsonObject]:
        """Yield the schemas around one that every value which reaches it satisfies too, the nearest first."""
        current = schema
        while id(current) in self._enclosing and id(current) not in self._reference_targets():
            current = self._enclosing[id(current)]
            yield current

    def _reference_targets(self) -> frozenset[int]:
        if self._targets is None:
            references = [
                (schema, reference)
                for _, schema in self.subschemas()
                if isinstance(reference := schema.get("$ref"), str) and not self.is_meta_schema(reference)
            ]
            self._targets = frozenset(id(self.resolve(schema, reference)) for schema, reference in references)
        return self._targets

    def constraints(self, schema: JsonObject) -> JsonObject:
        """Return the keywords that constrain; beside `$ref`, drafts 4 to 7 ignore every other one."""
        if self.draft <= 7 and isinstance(schema.get("$ref"), str):
            return {"$ref": schema["$ref"]}
        return {keyword: value for keyword, value in schema.items() if is_constraint(keyword, self.draft)}

    def adopt(self, made: JsonValue, parent: JsonObject) -> JsonValue:
        """Give a schema made by a rewrite the base of the schema it came from."""
        if isinstance(made, list):
            for item in made:
                self.adopt(item, parent)
        if isinstance(made, dict) and id(made) not in self._bases:
            self._kept.append(made)
            self._bases[id(made)] = self._bases.get(id(parent), "")
            for value in made.values():
                self.adopt(value, parent)
        return made

    def check_references(self) -> None:
        """Resolve every reference of the document.

        Raises:
            SchemaRejectedError: one is remote, or names nothing.
        """
        for _, schema in list(self.subschemas()):
            reference = schema.get("$ref")
            if isinstance(reference, str) and not self.is_meta_schema(reference):
                self.resolve(schema, reference)

    def resolve(self, schema: JsonObject, reference: str, keyword: str = "$ref") -> JsonValue:
        """Return the subschema a reference means.

        Raises:
            SchemaRejectedError: it is remote, or names nothing.
        """
        base = self._bases.get(id(schema), "")
        target = _join(base, reference)
        resource, fragment = urldefrag(target)
        if target in self._anchors:
            return self._anchors[target]
        if resource in self._resources:
            return self._at_fragment(schema, resource, unquote(fragment), reference, keyword)
        raise SchemaRejectedError(
            f"{reference!r} refers outside the schema; nothing is fetched",
            pointer=f"{self.pointer(schema) or ''}/{keyword}",
            keyword=keyword,
            hint="copy the schema it means into $defs and refer to it with #/$defs/name",
        )

    def _at_fragment(
        self, schema: JsonObject, resource: str, fragment: str, reference: str, keyword: str
    ) -> JsonValue:
        value = self._resources[resource]
        base = resource
        if fragment and not fragment.startswith("/"):
            value = None
        parts = fragment.split("/")[1:]
        for part in parts:
            name = part.replace("~1", "/").replace("~0", "~")
            value = _descend(value, name)
            if isinstance(value, dict):
                base = self._bases.get(id(value), base)
        if not isinstance(value, (bool, dict)):
            raise SchemaRejectedError(
                f"{reference!r} refers to nothing in the schema",
                pointer=f"{self.pointer(schema) or ''}/{keyword}",
                keyword=keyword,
                hint="define it under $defs, or correct the reference",
            )
        if isinstance(value, dict) and id(value) not in self._bases:
            self._index(value, base, fragment)
        return value

    def _index(self, schema: JsonObject, base: str, pointer: str) -> None:
        pending = [(schema, base, pointer)]
        while pending:
            current, current_base, current_pointer = pending.pop()
            if id(current) in self._bases:
                continue
            current_base = self._own_base(current, current_base)
            self._kept.append(current)
            self._bases[id(current)] = current_base
            self._pointers[id(current)] = current_pointer
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(current.get(name), str):
                    self._anchors.setdefault(f"{current_base}#{current[name]}", current)
            children = list(_child_schemas(current))
            for path, child in reversed(children):
                if path.split("/")[0] in _ON_THE_SAME_VALUE:
                    self._enclosing.setdefault(id(child), current)
                pending.append((child, current_base, f"{current_pointer}/{path}"))

    def _own_base(self, schema: JsonObject, base: str) -> str:
        identifier = schema.get("id" if self.draft == 4 else "$id")
        if not isinstance(identifier, str) or (self.draft <= 7 and "$ref" in schema):
            return base
        resource, fragment = urldefrag(_join(base, identifier))
        if fragment and self.draft <= 7:
            self._anchors.setdefault(f"{resource}#{fragment}", schema)
            return base
        self._resources.setdefault(resource, schema)
        return resource

    @staticmethod
    def is_meta_schema(reference: str) -> bool:
        """Whether a reference means a published meta-schema, which the validator carries."""
        return reference.startswith(_META_SCHEMAS)


def _join(base: str, reference: str) -> str:
    # A URN has no hierarchy to join on, yet a fragment of it is well defined.
    if reference.startswith("#"):
        return urldefrag(base)[0] + reference
    return urljoin(base, reference) if base else reference


def _descend(value: JsonValue, name: str) -> JsonValue:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and name.isdigit() and int(name) < len(value):
        return value[int(name)]
    return None


def _child_schemas(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for keyword, value in schema.items():
        if keyword in SCHEMA_KEYWORDS and isinstance(value, dict):
            yield keyword, value
        elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            yield from (
                (f"{keyword}/{index}", item) for index, item in enumerate(value) if isinstance(item, dict)
            )
        elif keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, dict):
                    escaped = name.replace("~", "~0").replace("/", "~1")
                    yield f"{keyword}/{escaped}", item
