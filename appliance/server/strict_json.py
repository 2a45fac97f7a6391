"""JSON of strangers: no NaN or Infinity, no number beyond a double, no name twice, no lone surrogate, no abyss."""

from __future__ import annotations

import json
from math import isfinite

from appliance.server.problems import RefusedError

_MAX_DEPTH = 64
_MAX_INTEGER_DIGITS = 300


def check_json(body: bytes) -> None:
    """Refuse a body that JSON parsers read in different ways.

    Raises:
        RefusedError: says what is wrong with it.
    """
    try:
        text = body.decode("utf-8")
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_no_duplicates,
        )
        _check_depth(value)
    except UnicodeDecodeError as exc:
        raise _bad(f"the body is not UTF-8: byte {exc.start}") from exc
    except json.JSONDecodeError as exc:
        raise _bad(f"the body is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from exc
    except RecursionError as exc:
        raise _bad("the body is nested too deeply") from exc
    except ValueError as exc:
        raise _bad(f"the body cannot be used: {exc}") from exc


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _integer(text: str) -> int:
    if len(text) > _MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer has {len(text)} digits")
    return int(text)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:80]!r} stands twice in one object")
    return named


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        for each in level:
            _check_text(each)
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return
    raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _check_text(value: object) -> None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise ValueError("a text holds half of a surrogate pair") from exc


def _bad(message: str) -> RefusedError:
    return RefusedError(message, status=400, code="invalid_json", hint="send JSON as RFC 8259 defines it")
