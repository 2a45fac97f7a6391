"""Write a short text that a grammar pattern matches: the way out of a string that must end in some word."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_CLASS_MEMBER: Final = {
    "d": "0",
    "w": "a",
    "s": " ",
    "D": "a",
    "W": "-",
    "S": "a",
    "t": "\t",
    "n": "\n",
    "r": "\r",
}
_PLAIN: Final = "a0-A_ .:/@x1é日"
_MAX_DEPTH: Final = 40
_MAX_LENGTH: Final = 200


@lru_cache(maxsize=1024)
def pattern_example(pattern: str) -> str:
    """Return a short text that likely matches; empty when none is found. Callers check it."""
    try:
        example = _Reader(pattern).alternatives(0)
    except (ValueError, IndexError):
        return ""
    return example if len(example) <= _MAX_LENGTH else ""


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0

    def alternatives(self, depth: int) -> str:
        """Read alternatives up to a closing parenthesis; return the shortest."""
        if depth > _MAX_DEPTH:
            raise ValueError("the pattern nests too deep")
        found = [self._sequence(depth)]
        while self._peek() == "|":
            self._position += 1
            found.append(self._sequence(depth))
        return min(found, key=len)

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _sequence(self, depth: int) -> str:
        parts: list[str] = []
        while (character := self._peek()) and character not in "|)":
            parts.append(self._repeated(self._atom(depth)))
        return "".join(parts)

    def _atom(self, depth: int) -> str:
        character = self._peek()
        self._position += 1
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        return "" if character in "^$" else "a" if character == "." else character

    def _group(self, depth: int) -> str:
        if self._peek() == "?":
            self._position = self._pattern.index(":", self._position) + 1
        text = self.alternatives(depth + 1)
        self._position += 1
        return text

    def _escape(self) -> str:
        character = self._pattern[self._position]
        self._position += 1
        if character in "xu":
            return self._code(character)
        if character in "pP":
            self._position = self._pattern.index("}", self._position) + 1
            return "a"
        return _CLASS_MEMBER.get(character, character)

    def _code(self, kind: str) -> str:
        if self._peek() == "{":
            end = self._pattern.index("}", self._position)
            digits = self._pattern[self._position + 1 : end]
            self._position = end + 1
        else:
            size = 2 if kind == "x" else 4
            digits = self._pattern[self._position : self._position + size]
            self._position += size
        return chr(int(digits, 16))

    def _class(self) -> str:
        is_negated = self._peek() == "^"
        self._position += is_negated
        members: list[str] = []
        excluded: list[tuple[str, str]] = []
        while self._peek() != "]":
            low = self._member()
            high = low
            if self._peek() == "-" and self._pattern[self._position + 1] != "]":
                self._position += 1
                high = self._member()
            members.append(low)
            excluded.append((low, high))
        self._position += 1
        if not is_negated:
            return members[0]
        return next(c for c in _PLAIN if not any(low <= c <= high for low, high in excluded))

    def _member(self) -> str:
        character = self._pattern[self._position]
        self._position += 1
        return self._escape() if character == "\\" else character

    def _repeated(self, text: str) -> str:
        character = self._peek()
        if character in ("*", "?"):
            self._position += 1
            text = ""
        elif character == "+":
            self._position += 1
        elif character == "{":
            end = self._pattern.index("}", self._position)
            text *= min(_MAX_LENGTH, int(self._pattern[self._position + 1 : end].split(",")[0]))
            self._position = end + 1
        if self._peek() == "?" and character in ("*", "+", "?", "{"):
            self._position += 1
        return text
