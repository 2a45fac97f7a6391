"""Whether a text mentions a phrase: as whole words, letter case, accents and spacing aside."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache


def mentions(text: str, phrase: str) -> bool:
    """Whether the phrase occurs in the text as whole words."""
    return _pattern(phrase).search(_plain(text)) is not None


def json_mentions(json_text: str, phrase: str) -> bool:
    """Whether a string anywhere in JSON text mentions the phrase; escapes do not hide it."""
    if not json_text:
        return False
    try:
        content: object = json.loads(json_text)
    except ValueError:
        return mentions(json_text, phrase)
    return any(mentions(text, phrase) for text in _strings(content))


def json_has_string(json_text: str, wanted: str) -> bool:
    """Whether JSON text has exactly this string as a value or key, as an id has it."""
    if wanted not in json_text:
        return False
    try:
        return any(text == wanted for text in _strings(json.loads(json_text)))
    except ValueError:
        return True


def _strings(content: object) -> Iterator[str]:
    waiting = [content]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, list):
            waiting += current
        elif isinstance(current, dict):
            waiting += [*current.keys(), *current.values()]


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@lru_cache(maxsize=64)
def _pattern(phrase: str) -> re.Pattern[str]:
    words = _plain(phrase).split()
    body = r"\s+".join(map(re.escape, words)) or r"(?!)"
    # Where words are not parted by spaces (any letter beyond Greek and Cyrillic), a border cannot be told.
    has_borders = all(ord(character) < 0x600 for word in words for character in word)
    return re.compile(rf"(?<!\w){body}(?!\w)" if has_borders else body)
