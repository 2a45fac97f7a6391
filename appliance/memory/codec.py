"""JSON text of core values as it is stored and exported, checked when it is read back."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from appliance.core.errors import ApplianceError, StorageError

Value = TypeVar("Value")

_UNSTORABLE = {0: "\ufffd", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


def to_json(value: Value, of: type[Value]) -> str:
    """Return a value as compact JSON text."""
    return _adapter(cast("Hashable", of)).dump_json(value).decode()


def from_json(text: str | bytes, of: type[Value], what: str) -> Value:
    """Read a stored value back.

    Raises:
        StorageError: the text is not such a value.
    """
    try:
        return cast("Value", _adapter(cast("Hashable", of)).validate_json(text))
    except (ValidationError, ApplianceError) as exc:
        raise StorageError(
            f"a stored {what} cannot be read", hint="run `appliance doctor` to check the store"
        ) from exc


def storable(text: str) -> str:
    """Return the text with what SQLite cannot keep, lone surrogates and NUL, replaced by U+FFFD."""
    return text.translate(_UNSTORABLE)


@cache
def _adapter(of: Hashable) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", of))
