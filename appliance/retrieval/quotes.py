"""Quotes: a grammar that lets a model write nothing but words of the passages, and finding a quote's exact place."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.errors import InvalidRequestError
from appliance.retrieval.languages import DENSE_SCRIPT

_SPACES = re.compile(r"\s+")
_TOKEN_OR_SPACE = re.compile(r"\S+")
_QUOTE_LINE = re.compile(r"^\[(\d+)\] (.*)$")
ANSWER_MARK = "Answer: "
NO_QUOTE_LINE = "no quote"
MAX_QUOTES = 4
_LEAST_CHARACTERS = {"substring_words": 12, "substring_chars": 4}
_MOST_CHARACTERS = 400
# Scripts without spaces have no borders of words that a grammar could see.


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedAnswer:
    """What a model wrote under `quote_grammar`: quotes with the number of their passage, then the answer."""

    quotes: tuple[tuple[int, str], ...]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotePlace:
    """Where a quote stands in a text. `is_exact` is false when white space or hyphenation differ."""

    start: int
    end: int
    is_exact: bool


def one_line(text: str) -> str:
    """Return a passage on one line, as the model sees and quotes it."""
    return _SPACES.sub(" ", text).strip()


def quote_grammar(passages: Sequence[str], *, max_quotes: int = MAX_QUOTES) -> str:
    """Return a Lark grammar: lines `[n] words of passage n`, or `no quote`; then `Answer: ` and free text.

    A quote is a run of whole words of its passage by construction; the answer refers to quotes as [n].

    Raises:
        InvalidRequestError: there is no passage with words.
    """
    usable = [(number, one_line(text)) for number, text in enumerate(passages, start=1) if text.strip()]
    if not usable:
        raise InvalidRequestError("there is nothing to quote from", hint="search again with other words")
    alternatives = " | ".join(f"quote_{number}" for number, _ in usable)
    rules = [
        f'start: ( ( {alternatives} ){{1,{max_quotes}}} | "{NO_QUOTE_LINE}\\n" ) "{ANSWER_MARK}" ANSWER',
        "ANSWER: /[^\\n\\[](.|\\n)*/",
    ]
    for number, text in usable:
        rules.append(f'quote_{number}: "[{number}] " WORDS_{number} "\\n"')
        by = "substring_chars" if DENSE_SCRIPT.search(text) else "substring_words"
        least = min(len(text), _LEAST_CHARACTERS[by])
        rules.append(f"WORDS_{number}: SPAN_{number} & /(.|\\n){{{least},{_MOST_CHARACTERS}}}/")
        rules.append(f'SPAN_{number}: %regex {{ "{by}": {json.dumps(text, ensure_ascii=False)} }}')
    return "\n".join(rules) + "\n"


def parse_quoted_answer(text: str) -> QuotedAnswer:
    """Split what was written under `quote_grammar`; an answer cut off by a limit keeps its whole quotes."""
    head, mark, answer = text.partition(f"\n{ANSWER_MARK}")
    lines = head.split("\n") if mark else head.split("\n")[:-1]
    found = [match for line in lines if (match := _QUOTE_LINE.match(line)) is not None]
    return QuotedAnswer(
        quotes=tuple((int(match.group(1)), match.group(2).strip()) for match in found), answer=answer.strip()
    )


def find_quote(quote: str, text: str) -> QuotePlace | None:
    """Find a quote in a text: exactly, or with other white space and hyphens at line ends."""
    stripped = quote.strip()
    if not stripped:
        return None
    if (start := text.find(stripped)) >= 0:
        return QuotePlace(start=start, end=start + len(stripped), is_exact=True)
    match = re.search(_loose_pattern(stripped), text)
    if match is None:
        return None
    return QuotePlace(start=match.start(), end=match.end(), is_exact=False)


def _loose_pattern(quote: str) -> str:
    """Return a pattern in which white space is any white space and words may be parted at a line's end."""
    words = [word.replace("\u00ad", "") for word in _TOKEN_OR_SPACE.findall(quote)]
    # A hyphen before a line break parts a word; a soft hyphen is never seen.
    within = r"(?:[-\u2010]\s*\n\s*|\u00ad)?"
    return r"\s+".join(within.join(map(re.escape, word)) for word in words if word)
