"""Reads values out of JSON that another program wrote; what is not as expected counts as absent."""

from __future__ import annotations

import json

JsonObject = dict[str, object]


def parsed(text: str | bytes) -> object:
    """Return the value of JSON text, or `None` when it is none."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def at(value: object, *path: str) -> object:
    """Return what lies at a path of keys, or `None`."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_at(value: object, *path: str) -> str:
    """Return the text at a path, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def count_at(value: object, *path: str) -> int | None:
    """Return the whole number from 0 at a path, or `None`."""
    found = at(value, *path)
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 53
    return found if isinstance(found, int) and is_count else None


def number_at(value: object, *path: str) -> float:
    """Return the number from 0 at a path, or 0."""
    found = at(value, *path)
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1e15
    return float(found) if isinstance(found, int | float) and is_number else 0.0


def list_at(value: object, *path: str) -> list[object]:
    """Return the list at a path, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, list) else []
