"""Finds the words of a document that a value stands on. What is not written there has no evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from appliance.retrieval.languages import DENSE_SCRIPT
from appliance.retrieval.records import StoredChunk
from appliance.structured.json_text import JsonValue

Verdict = Literal["exact", "near", "absent", "uncheckable", "empty"]
"""`exact`: written so, word for word. `near`: written with other case, white space, number or date format.
`absent`: not written anywhere. `uncheckable`: true and false are never written so. `empty`: there is no value."""

_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W\d_]+")
_MONTHS = (
    "jan(?:uary|uar)?|jänner", "feb(?:ruary|ruar)?", "mar(?:ch)?|märz?", "apr(?:il)?", "may|mai", "jun[ei]?",
    "jul[yi]?", "aug(?:ust)?", "sept?(?:ember)?", "o[ck]t(?:ober)?", "nov(?:ember)?", "de[cz](?:ember)?",
)  # fmt: skip
_NUMBER_WORDS = (
    "zero|null", "one|eine?s?", "two|zwei", "three|drei", "four|vier", "five|fünf", "six|sechs", "seven|sieben",
    "eight|acht", "nine|neun", "ten|zehn", "eleven|elf", "twelve|zwölf",
)  # fmt: skip
_CONTEXT_CHARACTERS = 120
_MOST_OCCURRENCES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEvidence:
    """One value of a row and the characters `start` to `end` of the document it stands on.

    `path` names it, as `address.city` or `tags[0]`. Without evidence the quote is empty and the span too.
    """

    path: str
    value: JsonValue
    verdict: Verdict
    quote: str = ""
    place: str = ""
    start: int = 0
    end: int = 0

    @property
    def is_found(self) -> bool:
        """Whether the value stands in the document."""
        return self.verdict in ("exact", "near")


def evidence_of(name: str, value: JsonValue, passages: Sequence[StoredChunk]) -> tuple[FieldEvidence, ...]:
    """Hold a field against the passages it came from: one entry for each value in it."""
    return tuple(_evidence(path, leaf, passages) for path, leaf in _leaves(name, value))


def _leaves(path: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    match value:
        case dict() if value:
            for key, item in value.items():
                yield from _leaves(f"{path}.{key}", item)
        case list() if value:
            for position, item in enumerate(value):
                yield from _leaves(f"{path}[{position}]", item)
        case _:
            yield path, value


def _evidence(path: str, value: JsonValue, passages: Sequence[StoredChunk]) -> FieldEvidence:
    if isinstance(value, bool):
        return FieldEvidence(path=path, value=value, verdict="uncheckable")
    if value is None or not str(value).strip() or isinstance(value, list | dict):
        return FieldEvidence(path=path, value=value, verdict="empty")
    words = _words_of(path)
    for verdict, pattern in _patterns(value):
        if found := _best_place(pattern, words, passages):
            chunk, match = found
            start, end = chunk.start + match.start(), chunk.start + match.end()
            return FieldEvidence(
                path=path,
                value=value,
                verdict=verdict,
                quote=match.group(),
                place=chunk.place_of(start, end),
                start=start,
                end=end,
            )
    return FieldEvidence(path=path, value=value, verdict="absent")


def _best_place(
    pattern: re.Pattern[str], words: frozenset[str], passages: Sequence[StoredChunk]
) -> tuple[StoredChunk, re.Match[str]] | None:
    """Of several places take the one behind most words of the field's name, then the first."""
    best: tuple[int, StoredChunk, re.Match[str]] | None = None
    seen = 0
    for chunk in passages:
        for match in pattern.finditer(chunk.text):
            before = chunk.text[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()].casefold()
            score = sum(word in before for word in words)
            if best is None or score > best[0]:
                best = (score, chunk, match)
            seen += 1
            if score == len(words) or seen >= _MOST_OCCURRENCES:
                return best[1], best[2]
    return (best[1], best[2]) if best else None


def _words_of(path: str) -> frozenset[str]:
    name = path.rpartition(".")[2].partition("[")[0]
    return frozenset(part.casefold() for part in _NAME_PARTS.findall(name) if len(part) > 1)


def _patterns(value: str | int | float) -> Iterator[tuple[Verdict, re.Pattern[str]]]:
    if isinstance(value, int | float):
        yield "exact", _bounded(re.escape(str(value)), is_number=True)
        yield "near", _number_pattern(value)
        if isinstance(value, int) and 0 <= value < len(_NUMBER_WORDS):
            yield "near", _bounded(f"(?:{_NUMBER_WORDS[value]})", ignores_case=True)
        return
    text = value.strip()
    yield "exact", _bounded(re.escape(text), text=text)
    yield "near", _bounded(_loose(text), text=text, ignores_case=True)
    if (day := _date_of(text)) is not None:
        yield "near", _date_pattern(day)


def _bounded(
    pattern: str, *, text: str = "", is_number: bool = False, ignores_case: bool = False
) -> re.Pattern[str]:
    """Let a pattern match whole words only: a value inside another word is no evidence."""
    flags = re.IGNORECASE if ignores_case else 0
    if DENSE_SCRIPT.search(text):
        return re.compile(pattern, flags)
    if is_number:
        return re.compile(rf"(?<!\w)(?<!\d[.,]){pattern}(?!\d|[.,]\d)", flags)
    before = r"(?<!\w)" if not text or text[0].isalnum() else ""
    after = r"(?!\w)" if not text or text[-1].isalnum() else ""
    return re.compile(f"{before}{pattern}{after}", flags)


def _loose(text: str) -> str:
    within = r"(?:[-\u2010]\s*\n\s*|\u00ad)?"
    return r"\s+".join(within.join(map(re.escape, word)) for word in text.split())


def _number_pattern(value: float) -> re.Pattern[str]:
    """Match a number as people write it: grouped, with a comma for the point, with zeros at its end."""
    whole, _, fraction = f"{abs(value):.10f}".rstrip("0").partition(".")
    groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)][::-1]
    digits = r"[,.'’\u00a0\u202f ]?".join(groups)
    decimals = rf"[.,]{fraction}0*" if fraction else r"(?:[.,]0+)?"
    sign = r"[-\u2212\u2013]\s?" if value < 0 else ""
    return _bounded(f"{sign}{digits}{decimals}", is_number=True)


def _date_of(text: str) -> date | None:
    found = _ISO_DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(*(int(part) for part in found.groups()))
    except ValueError:
        return None


def _date_pattern(day: date) -> re.Pattern[str]:
    name = f"(?:{_MONTHS[day.month - 1]})\\.?"
    number = rf"0?{day.day}(?:st|nd|rd|th)?\.?"
    month = f"0?{day.month}"
    forms = [
        rf"{number}\s+(?:of\s+|day\s+of\s+)?{name},?\s+{day.year}",
        rf"{name}\s+{number},?\s+{day.year}",
        rf"0?{day.day}\s?[./-]\s?{month}\s?[./-]\s?{day.year}",
        rf"{month}/0?{day.day}/{day.year}",
        rf"{day.year}[./]{month}[./]0?{day.day}",
    ]
    return _bounded(f"(?:{'|'.join(forms)})", ignores_case=True)
