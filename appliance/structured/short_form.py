"""The short form of a schema: `name, age int, tags [str], address {street, zip int}, size s|m|l, note?`."""

from __future__ import annotations

import re
from typing import Final

from appliance.core.errors import SchemaRejectedError
from appliance.structured.json_text import JsonValue

_TYPES: Final[dict[str, dict[str, JsonValue]]] = {
    "str": {"type": "string"},
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "datetime": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "url": {"type": "string", "format": "uri"},
    "uuid": {"type": "string", "format": "uuid"},
    "any": {},
}
_TOKEN: Final = re.compile(r"\s*([A-Za-z_][\w-]*|\"[^\"]*\"|[\[\]{},?|])")
_MAX_DEPTH: Final = 20


def short_form_schema(text: str) -> dict[str, JsonValue]:
    """Return the JSON Schema a short form stands for.

    Fields are required unless a `?` follows them; a field without a type is text; `[type]` is a list,
    `{...}` an object, `a|b` one of some words.

    Raises:
        SchemaRejectedError: the text does not follow the form; says where.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._position = 0

    def whole(self) -> dict[str, JsonValue]:
        schema = self._fields(0)
        if self._peek():
            raise self._error(f"{self._peek()!r} is not expected here")
        return schema

    def _split(self, text: str) -> list[str]:
        tokens: list[str] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(
                    f"{text[position:].strip()[:1]!r} at character {position} is not understood"
                )
            tokens.append(match.group(1))
            position = match.end()
        return tokens

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _error(self, message: str) -> SchemaRejectedError:
        return SchemaRejectedError(
            f"the short schema {self._text[:80]!r} is not understood: {message}",
            hint='write fields like "name, age int, tags [str]"; types are ' + ", ".join(_TYPES),
        )

    def _fields(self, depth: int) -> dict[str, JsonValue]:
        if depth > _MAX_DEPTH:
            raise self._error("it nests too deep")
        properties: dict[str, JsonValue] = {}
        required: list[JsonValue] = []
        while True:
            name = self._take().strip('"')
            if not name or name in "[]{},?|":
                raise self._error("a field needs a name")
            if name in properties:
                raise self._error(f"the field {name!r} is named twice")
            properties[name], is_optional = self._type_of_field(depth)
            if not is_optional:
                required.append(name)
            if self._peek() != ",":
                break
            self._position += 1
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def _type_of_field(self, depth: int) -> tuple[JsonValue, bool]:
        is_optional = self._skip("?")
        if self._peek() in ("", ",", "}"):
            return {"type": "string"}, is_optional
        schema = self._type(depth)
        return schema, self._skip("?") or is_optional

    def _skip(self, token: str) -> bool:
        found = self._peek() == token
        self._position += found
        return found

    def _type(self, depth: int) -> JsonValue:
        word = self._take()
        if word == "[":
            items: JsonValue = {"type": "string"} if self._peek() == "]" else self._type(depth + 1)
            self._close("]")
            return {"type": "array", "items": items}
        if word == "{":
            schema = self._fields(depth + 1)
            self._close("}")
            return schema
        words = [word]
        while self._skip("|"):
            words.append(self._take())
        if len(words) > 1:
            if any(part in "[]{},?|" for part in words):
                raise self._error("the words of a choice are joined by |")
            return {"enum": [part.strip('"') for part in words]}
        if word not in _TYPES:
            raise self._error(f"{word!r} is no type")
        return dict(_TYPES[word])

    def _close(self, token: str) -> None:
        if self._take() != token:
            raise self._error(f"{token!r} is missing")
