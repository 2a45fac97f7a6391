"""Whether a text mentions a phrase: as whole words, letter case, accents and spacing aside."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

# Combining marks of Latin, Greek and Cyrillic, Hebrew points, Arabic vowel signs, and marks for symbols.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20ff\ufe20-\ufe2f]+"
)


def mentions(text: str, phrase: str) -> bool:
    """Whether the phrase occurs in the text as whole words."""
    return phrase_pattern(phrase).search(plain(text)) is not None


def json_mentions(json_text: str, phrase: str) -> bool:
    """Whether a string anywhere in JSON text mentions the phrase; escapes do not hide it."""
    if not json_text or ("\\" not in json_text and not mentions(json_text, phrase)):
        return False
    try:
        content: object = json.loads(json_text)
    except ValueError:
        return mentions(json_text, phrase)
    return any(mentions(text, phrase) for text in json_strings(content))


def json_has_string(json_text: str, wanted: str) -> bool:
    """Whether JSON text has exactly this string as a value or key, as an id has it."""
    if wanted not in json_text:
        return False
    try:
        return any(text == wanted for text in json_strings(json.loads(json_text)))
    except ValueError:
        return True


def json_strings(content: object) -> Iterator[str]:
    """Yield every string in a JSON value, keys included."""
    waiting = [content]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, list):
            waiting += current
        elif isinstance(current, dict):
            waiting += [*current.keys(), *current.values()]


def plain(text: str) -> str:
    """Return the text without case and accents, as `phrase_pattern` searches it."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text).casefold())


@lru_cache(maxsize=64)
def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern that finds a phrase in plain text."""
    words = plain(phrase).split()
    body = r"\s+".join(map(re.escape, words)) or r"(?!)"
    # Where words are not parted by spaces (any letter beyond Greek and Cyrillic), a border cannot be told.
    has_borders = all(ord(character) < 0x600 for word in words for character in word)
    return re.compile(rf"(?<!\w){body}(?!\w)" if has_borders else body)
