"""Read JSON text exactly: duplicate keys, numbers out of range, spans of values, and unfinished text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from appliance.structured.report import Problem

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
Path = tuple[str | int, ...]

ITEM_SEPARATOR: Final = ", "
KEY_SEPARATOR: Final = ": "
MAX_NUMBER_CHARACTERS: Final = 400
MAX_DEPTH: Final = 256

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_PREFIX = re.compile(r"[-+0-9.eE]*")
_LITERALS: Final[dict[str, JsonValue]] = {"true": True, "false": False, "null": None}


@dataclass(slots=True)
class JsonScan:
    """What a text holds: the closed part of its value, where each closed value stands, and what is wrong.

    `is_complete` says that one whole value stands there and nothing follows it. `error_at` is the
    character where the text stops being JSON, or nests too deep, or -1. `key_spans` has one entry for each key written,
    so a duplicate key has more than one.
    """

    value: JsonValue = None
    is_complete: bool = False
    error_at: int = -1
    problems: list[Problem] = field(default_factory=list)
    spans: dict[Path, tuple[int, int]] = field(default_factory=dict)
    duplicate_spans: list[tuple[int, int]] = field(default_factory=list)


def dump_json(value: JsonValue) -> str:
    """Write a value with the separators that constrained output uses."""
    return json.dumps(value, ensure_ascii=False, separators=(ITEM_SEPARATOR, KEY_SEPARATOR))


def pointer_of(path: Path) -> str:
    """Write a path as a JSON pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def scan_json(text: str) -> JsonScan:
    """Scan a text that may be unfinished; a value counts once nothing can be added to it."""
    return _Scanner(text).run()


def partial_json(text: str) -> JsonValue:
    """Return the closed part of an unfinished JSON text; `None` when nothing is closed yet."""
    return scan_json(text).value


class _UnfinishedError(Exception):
    """The text ends inside a value."""


class _BrokenError(Exception):
    """The text is not JSON at a character."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


@dataclass(slots=True)
class _Frame:
    container: list[JsonValue] | dict[str, JsonValue]
    start: int
    path: Path
    key: str = ""
    key_start: int = 0
    is_first: bool = True


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.stack: list[_Frame] = []
        self.scan = JsonScan()

    def run(self) -> JsonScan:
        """Scan to the end, or to the first character that is not JSON."""
        try:
            self._value()
            while self.stack:
                self._step(self.stack[-1])
            self._skip_space()
            if self.position < len(self.text):
                raise _BrokenError(self.position)
            self.scan.is_complete = True
        except _UnfinishedError:
            pass
        except _BrokenError as error:
            self.scan.error_at = error.position
        return self.scan

    def _skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def _peek(self) -> str:
        self._skip_space()
        if self.position >= len(self.text):
            raise _UnfinishedError
        return self.text[self.position]

    def _step(self, frame: _Frame) -> None:
        closer = "}" if isinstance(frame.container, dict) else "]"
        if self._peek() == closer:
            self.position += 1
            self.stack.pop()
            self.scan.spans[frame.path] = (frame.start, self.position)
            return
        if not frame.is_first:
            self._expect(",")
        frame.is_first = False
        if isinstance(frame.container, dict):
            self._peek()
            frame.key_start = self.position
            frame.key = self._string()
            self._expect(":")
        self._value()

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise _BrokenError(self.position)
        self.position += 1

    def _value(self) -> None:
        first = self._peek()
        start = self.position
        if first in "{[":
            self._open(first, start)
            return
        value = self._string() if first == '"' else self._scalar(first)
        self._attach(value, start)
        self.scan.spans[self._child_path()] = (start, self.position)

    def _open(self, first: str, start: int) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise _BrokenError(start)
        container: list[JsonValue] | dict[str, JsonValue] = {} if first == "{" else []
        self._attach(container, start)
        path = self._child_path()
        self.position += 1
        self.stack.append(_Frame(container=container, start=start, path=path))

    def _child_path(self) -> Path:
        if not self.stack:
            return ()
        frame = self.stack[-1]
        if isinstance(frame.container, dict):
            return (*frame.path, frame.key)
        return (*frame.path, len(frame.container) - 1)

    def _attach(self, value: JsonValue, start: int) -> None:
        if not self.stack:
            self.scan.value = value
            return
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            frame.container.append(value)
            return
        if frame.key in frame.container:
            message = f"the key {frame.key!r} is written twice in one object"
            self.scan.problems.append(
                Problem(pointer=pointer_of(frame.path), keyword="duplicate key", message=message)
            )
            self.scan.duplicate_spans.append((frame.key_start, start))
        frame.container[frame.key] = value

    def _string(self) -> str:
        if self.text[self.position] != '"':
            raise _BrokenError(self.position)
        try:
            value, end = scanstring(self.text, self.position + 1, True)
        except json.JSONDecodeError as error:
            if '"' in self.text[self.position + 1 :] and "Unterminated" not in error.msg:
                raise _BrokenError(error.pos) from None
            raise _UnfinishedError from None
        self.position = end
        return str(value)

    def _scalar(self, first: str) -> JsonValue:
        for literal, value in _LITERALS.items():
            if literal[0] == first:
                return self._literal(literal, value)
        return self._number()

    def _literal(self, literal: str, value: JsonValue) -> JsonValue:
        found = self.text[self.position : self.position + len(literal)]
        if found == literal:
            self.position += len(literal)
            return value
        if literal.startswith(found) and self.position + len(found) == len(self.text):
            raise _UnfinishedError
        raise _BrokenError(self.position)

    def _number(self) -> JsonValue:
        prefix = _NUMBER_PREFIX.match(self.text, self.position)
        end = prefix.end() if prefix else self.position
        if end == len(self.text) and self.stack and end > self.position:
            raise _UnfinishedError
        match = _NUMBER.fullmatch(self.text, self.position, end)
        if match is None:
            raise _BrokenError(self.position)
        self.position = end
        return self._to_number(match.group())

    def _to_number(self, digits: str) -> JsonValue:
        if len(digits) > MAX_NUMBER_CHARACTERS:
            self._number_problem(
                f"a number has {len(digits)} characters; {MAX_NUMBER_CHARACTERS} is the limit"
            )
            return 0
        if digits.lstrip("-").isdigit():
            return int(digits)
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            self._number_problem(f"the number {digits} is out of range")
            return 0.0
        return number

    def _number_problem(self, message: str) -> None:
        path = self.stack[-1].path if self.stack else ()
        self.scan.problems.append(Problem(pointer=pointer_of(path), keyword="number range", message=message))
