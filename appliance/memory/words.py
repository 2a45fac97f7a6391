"""The words a full-text index stores and is asked for: folded text, and pairs of characters where no
spaces part the words.

Text is folded (NFKC, case) before it is indexed; FTS5's unicode61 then drops diacritics. A run of Chinese,
Japanese, Korean, Thai, Lao, Khmer or Burmese becomes its overlapping pairs and its last character, so any
part of it, one character too, is found at its place: a query of the same run is a phrase of pairs.
"""

from __future__ import annotations

import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_QUERY_PART = re.compile(r'"([^"]*)"|(\S+)')
_WORD = re.compile(r"\w", re.UNICODE)
_MAX_QUERY_CHARACTERS = 1000


def indexed_text(text: str) -> str:
    """Return the text as the index stores it."""
    return _UNSPACED_RUN.sub(lambda run: f" {_pairs(run[0])} ", _folded(text))


def match_query(query: str) -> str:
    """Return the FTS5 query for what a user typed, or an empty string when there is no word in it.

    Every word must occur; words in double quotes are one phrase; the last word may be unfinished.
    """
    phrases: list[str] = []
    for quoted, plain in _QUERY_PART.findall(query[:_MAX_QUERY_CHARACTERS]):
        is_unfinished = not quoted
        phrases += _phrases(quoted or plain, is_unfinished=is_unfinished)
    return " AND ".join(phrases)


def needle_pattern(query: str) -> re.Pattern[str]:
    """Return a pattern that finds the query's words in text, for marking them in an excerpt."""
    parts = [without_diacritics(quoted or plain) for quoted, plain in _QUERY_PART.findall(query)]
    words = [part.strip("\"'.,;:!?()[]") for part in parts]
    found = sorted({word for word in words if word}, key=len, reverse=True)
    return re.compile("|".join(re.escape(word) for word in found) or r"(?!)", re.IGNORECASE)


def without_diacritics(text: str) -> str:
    """Return the text with each character replaced by its base, length kept."""
    return "".join(_base(character) for character in text)


def _base(character: str) -> str:
    decomposed = unicodedata.normalize("NFKD", character).casefold()
    return decomposed[0] if decomposed else character


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _pairs(run: str) -> str:
    return " ".join([run[i : i + 2] for i in range(len(run) - 1)] + [run[-1]])


def _phrases(words: str, *, is_unfinished: bool) -> list[str]:
    phrases: list[str] = []
    folded = _folded(words)
    position = 0
    for run in _UNSPACED_RUN.finditer(folded):
        phrases.append(_phrase(folded[position : run.start()], ""))
        text = run[0]
        phrases.append(_phrase(_pairs(text).rpartition(" ")[0] or text, "*" if len(text) == 1 else ""))
        position = run.end()
    phrases.append(_phrase(folded[position:], "*" if is_unfinished else ""))
    return [phrase for phrase in phrases if phrase]


def _phrase(words: str, suffix: str) -> str:
    if not _WORD.search(words):
        return ""
    return '"' + words.replace('"', " ").replace("\0", " ") + '"' + suffix
