"""Translate ECMA-262 regular expressions, as `pattern` writes them, to the grammar's dialect."""

from __future__ import annotations

from functools import lru_cache

_CONTROL_ESCAPES = frozenset("tnrvf")
_SAME_CLASSES = frozenset("dDwW")
_SPACE_CLASS = r"\t\n\x0B\x0C\r \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF"
_CLASS_SPECIALS = frozenset("[&~")
_OUTSIDE_DOT = r"[^\n\r\u2028\u2029]"


class UntranslatablePatternError(ValueError):
    """A regular expression the grammar cannot express: a lookaround, a backreference, a word boundary."""


@lru_cache(maxsize=4096)
def to_grammar_pattern(pattern: str) -> str:
    """Return the same expression in the grammar's dialect.

    Raises:
        UntranslatablePatternError: it needs more than a regular language, or is no expression.
    """
    return _Translator(pattern).run()


def full_match(pattern: str) -> str:
    """Anchor a grammar pattern at both ends."""
    return f"^(?:{pattern})$"


class _Translator:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.out: list[str] = []

    def run(self) -> str:
        while self.position < len(self.pattern):
            self._next()
        return "".join(self.out)

    def _take(self, count: int = 1) -> str:
        taken = self.pattern[self.position : self.position + count]
        if len(taken) < count:
            raise UntranslatablePatternError("the expression ends too early")
        self.position += count
        return taken

    def _next(self) -> None:
        character = self._take()
        if character == "\\":
            self.out.append(self._escape(in_class=False))
        elif character == "[":
            self._class()
        elif character == ".":
            self.out.append(_OUTSIDE_DOT)
        elif character == "(":
            self._group()
        elif character == "{" and not _is_quantifier(self.pattern, self.position):
            self.out.append(r"\{")
        elif character == "}" and not self._closes_quantifier():
            self.out.append(r"\}")
        elif character == "]":
            self.out.append(r"\]")
        elif character == "?" and self.out and self.out[-1] in ("*", "+", "?", "}"):
            # A lazy quantifier matches the same language.
            return
        else:
            self.out.append(character)

    def _closes_quantifier(self) -> bool:
        opened = self.pattern.rfind("{", 0, self.position - 1)
        return (
            opened >= 0
            and _is_quantifier(self.pattern, opened + 1)
            and (self.pattern.find("}", opened) == self.position - 1)
        )

    def _group(self) -> None:
        rest = self.pattern[self.position :]
        if rest.startswith(("?=", "?!", "?<=", "?<!")):
            raise UntranslatablePatternError("it looks ahead or behind")
        if rest.startswith("?<"):
            self._take(rest.index(">") + 1 if ">" in rest else len(rest) + 1)
            self.out.append("(?:")
            return
        if rest.startswith("?") and not rest.startswith("?:"):
            raise UntranslatablePatternError("it sets flags inside the expression")
        self.out.append("(")

    def _escape(self, *, in_class: bool) -> str:
        character = self._take()
        if character in _SAME_CLASSES or character in _CONTROL_ESCAPES:
            return f"\\{character}"
        if character in "sS":
            return self._space(negated=character == "S", in_class=in_class)
        if character == "b" and in_class:
            return r"\x08"
        if character in "bBk123456789":
            raise UntranslatablePatternError(f"it uses \\{character}")
        if character in "0cxu":
            return self._code(character)
        if character in "pP" and self.pattern[self.position : self.position + 1] == "{":
            return self._property(character)
        if character.isalnum():
            return character
        return character if ord(character) > 127 else f"\\{character}"

    def _code(self, kind: str) -> str:
        if kind == "0":
            return r"\x00"
        if kind == "c":
            return f"\\x{ord(self._take()) % 32:02X}"
        return f"\\x{self._hexadecimal(2):02X}" if kind == "x" else self._unicode()

    def _space(self, *, negated: bool, in_class: bool) -> str:
        if not in_class:
            return f"[{'^' if negated else ''}{_SPACE_CLASS}]"
        if negated:
            raise UntranslatablePatternError("it uses \\S inside a class")
        return _SPACE_CLASS

    def _property(self, character: str) -> str:
        end = self.pattern.find("}", self.position)
        if end < 0:
            raise UntranslatablePatternError("a property escape is not closed")
        name = self._take(end + 1 - self.position)[1:-1]
        for prefix in ("General_Category=", "gc="):
            name = name.removeprefix(prefix)
        return f"\\{character}{{{name}}}"

    def _hexadecimal(self, digits: int) -> int:
        text = self._take(digits)
        try:
            return int(text, 16)
        except ValueError:
            raise UntranslatablePatternError("a hexadecimal escape has other characters") from None

    def _unicode(self) -> str:
        if self.pattern[self.position : self.position + 1] == "{":
            end = self.pattern.find("}", self.position)
            code = int(self.pattern[self.position + 1 : end] or "x", 16) if end > 0 else -1
            self.position = end + 1
        else:
            code = self._hexadecimal(4)
            if 0xD800 <= code < 0xDC00 and self.pattern[self.position : self.position + 2] == "\\u":
                self._take(2)
                low = self._hexadecimal(4)
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise UntranslatablePatternError("it names half of a surrogate pair")
        return f"\\u{{{code:X}}}"

    def _class(self) -> None:
        self.out.append("[")
        if self.pattern[self.position : self.position + 1] == "^":
            self.out.append(self._take())
        if self.pattern[self.position : self.position + 1] == "]":
            raise UntranslatablePatternError("an empty class")
        while True:
            character = self._take()
            if character == "]":
                self.out.append("]")
                return
            if character == "\\":
                self.out.append(self._escape(in_class=True))
            elif character in _CLASS_SPECIALS:
                self.out.append(f"\\{character}")
            elif character == "-" and self._is_literal_hyphen():
                self.out.append(r"\-")
            else:
                self.out.append(character)

    def _is_literal_hyphen(self) -> bool:
        following = self.pattern[self.position : self.position + 1]
        return following == "]" or self.out[-1] in ("[", "^") or self.out[-1] in (r"\d", r"\w", _SPACE_CLASS)


def _is_quantifier(pattern: str, position: int) -> bool:
    end = pattern.find("}", position)
    if end < 0:
        return False
    low, comma, high = pattern[position:end].partition(",")
    return low.isdigit() and (not comma or not high or high.isdigit())
