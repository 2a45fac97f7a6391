"""File names as they can be shown: nothing in them may move the cursor, hide, or turn the text around."""

from __future__ import annotations

import os
import unicodedata

_HIDING = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))


def shown_name(path: str | os.PathLike[str]) -> str:
    """A name with control, direction and undecodable characters written as escapes."""
    return "".join(_shown(character) for character in os.fspath(path))


def storable_name(name: str) -> str:
    """A name as valid Unicode; bytes that are no UTF-8 are written as `\\xNN`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _shown(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if unicodedata.category(character) in _HIDING:
        return f"\\u{{{code:x}}}"
    return character
