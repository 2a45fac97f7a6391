"""What a sentence says, word for word in order: what two sentences must agree on to say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from appliance.retrieval.languages import DENSE_CHARACTERS, DENSE_SCRIPT, is_function_word, stemmed
from appliance.retrieval.opposites import (
    agent_words,
    by_language,
    dense_agents,
    dense_denials,
    is_denial,
    is_near_denial,
    is_no_agent,
    month_of,
    opposites_of,
    softens_denial,
)
from appliance.retrieval.spelling import NUMBER, is_number, normal_number, plain
from appliance.retrieval.terms import FUNCTION_CHARACTERS, NUMBER_WORDS, is_talk

WordKind = Literal["number", "name", "word", "denial", "near_denial"]

_TOKEN = re.compile(rf"{NUMBER}|[{DENSE_CHARACTERS}]+|[^\W\d_]+n['’]t\b|[^\W\d_{DENSE_CHARACTERS}]+")
_BREAK = re.compile(r"[,;:–—()，、；：（）]|\s-\s")
# "No, it does not": the first word answers and denies nothing that follows.
_LEADING_NO = re.compile(r"\s*(?:no|nein|non|não|nee|nej|nei|нет)\s*[,;:–—-]", re.IGNORECASE)
# Numbers that a source may leave out or say otherwise, so that they count only where both sides have one.
_LOOSE_NUMBERS = {"one": "1", "half": "0.5", "dozen": "12", "dutzend": "12"}
_DENSE_NUMBER = re.compile("[二三四五六七八九十百千万亿两〇]")
_JOINING = by_language(
    {
        "english": "and but while whereas or as because so which who",
        "german": "und aber während sowie oder sondern weil",
        "french": "et mais tandis ou",
        "spanish": "y e pero mientras o aunque",
        "italian": "e ed ma mentre o",
        "portuguese": "e mas enquanto ou",
        "dutch": "en maar terwijl of",
        "russian": "и а но или",
    }
)
# Words that stand for others, or help a verb; a source may say them where a sentence says what they stand for.
_STANDING_FOR_OTHERS = by_language(
    {
        "english": "it its he his him she her hers they their them this that these those we our us you your my me "
        "there here has will may might been were being also then such both",
        "german": "er sie es ihr ihre ihrer ihren ihrem ihm ihn ihnen sein seine seiner seinen seinem dieser diese "
        "dieses diesen diesem wir unser unsere ich mein man dort hier dabei wird wurde wurden worden war waren sind "
        "hat haben hatte hatten dann einen einem einer eines",
        "french": "elle ils elles son sa ses leur leurs ce cette ces nous notre vous votre été était ont",
        "spanish": "él ella ellos ellas sus este esta estos estas eso fue era han ha ser sido son es",
    }
)
_DENSE_JOINING = frozenset("和与及或而并且但")


@dataclass(frozen=True, slots=True)
class ClaimWord:
    """A word that says something. `follows_break` is whether a comma or an `and` stands right before it."""

    start: int
    text: str
    term: str
    kind: WordKind
    is_capital: bool
    follows_break: bool

    @property
    def denies(self) -> bool:
        """Whether it denies, or nearly."""
        return self.kind in ("denial", "near_denial")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, or a part of one, with its words in order."""

    text: str
    language: str
    words: tuple[ClaimWord, ...]

    @property
    def names_agent(self) -> bool:
        """Whether it says who acts as a passive sentence does, after what is acted on."""
        if any(one in self.text for one in dense_agents()):
            return True
        agents = agent_words(self.language)
        ends = (one.end() for one in _TOKEN.finditer(self.text) if one.group().lower() in agents)
        return any(self._can_act(end) for end in ends)

    def _can_act(self, after: int) -> bool:
        following = next((word for word in self.words if word.start >= after), None)
        return (
            following is not None
            and following.kind in ("name", "word")
            and not is_no_agent(following.text.lower(), self.language)
        )


def claim_of(
    sentence: str, language: str, names: frozenset[str] = frozenset(), *, is_begun: bool = False
) -> Claim:
    """Return a sentence's words without those that only hold it together.

    Args:
        names: stems known to be names; the first word of a sentence is one only if it is among them.
        is_begun: whether this is the rest of a sentence whose beginning is left out.
    """
    text = plain(sentence)
    return Claim(text, language, tuple(_words(text, language, names, is_begun)))


def _words(sentence: str, language: str, names: frozenset[str], is_begun: bool) -> Iterator[ClaimWord]:
    answer = _LEADING_NO.match(sentence)
    end, follows_break, is_first = answer.end() if answer else 0, False, not is_begun
    for match in _TOKEN.finditer(sentence, end):
        follows_break = follows_break or _BREAK.search(sentence, end, match.start()) is not None
        end = match.end()
        token = match.group()
        if DENSE_SCRIPT.search(token):
            for word in _characters(token, match.start(), follows_break):
                yield word
                follows_break = False
            continue
        word_or_none = _word(match, language, names, follows_break, is_first)
        if word_or_none is not None:
            yield word_or_none
            follows_break = False
        elif token.lower() in _JOINING.get(language, ()):
            follows_break = True
        is_first = False


def _word(
    match: re.Match[str], language: str, names: frozenset[str], follows_break: bool, is_first: bool
) -> ClaimWord | None:
    token, start = match.group(), match.start()
    low = token.lower()
    is_capital = token[0].isupper()
    if is_number(token):
        return ClaimWord(start, token, normal_number(low), "number", False, follows_break)
    if month := month_of(token, language):
        return ClaimWord(start, token, f"month {month}", "number", False, follows_break)
    if low in NUMBER_WORDS:
        return ClaimWord(start, token, str(NUMBER_WORDS[low]), "number", False, follows_break)
    following = _TOKEN.search(match.string, match.end())
    after = following.group().lower() if following is not None else ""
    if low in _LOOSE_NUMBERS and (low != "one" or not _is_empty(after, language)):
        return ClaimWord(start, token, _LOOSE_NUMBERS[low], "number", False, follows_break)
    if is_denial(low, language):
        if softens_denial(after, language) or (low == "no" and after[:1].isdigit()):
            return None
        return ClaimWord(start, token, "not", "denial", False, follows_break)
    if is_near_denial(low, language):
        return ClaimWord(start, token, stemmed(low, language), "near_denial", False, follows_break)
    stem = stemmed(low, language)
    if _is_empty(low, language) and not opposites_of(stem, language):
        return None
    is_name = is_capital and (not is_first or stem in names)
    return ClaimWord(start, token, stem, "name" if is_name else "word", is_capital, follows_break)


def _is_empty(word: str, language: str) -> bool:
    return (
        len(word) < 2
        or is_function_word(word, language)
        or is_talk(word)
        or word in _JOINING.get(language, ())
        or word in _STANDING_FOR_OTHERS.get(language, ())
    )


def _characters(run: str, start: int, follows_break: bool) -> Iterator[ClaimWord]:
    """Yield a run without spaces character by character."""
    denying = set(dense_denials(run))
    for place, character in enumerate(run):
        if place in denying:
            yield ClaimWord(start + place, character, "not", "denial", False, follows_break)
            follows_break = False
        elif character in _DENSE_JOINING:
            follows_break = True
        elif not FUNCTION_CHARACTERS.search(character):
            kind: WordKind = "number" if _DENSE_NUMBER.match(character) else "word"
            yield ClaimWord(start + place, character, character, kind, False, follows_break)
            follows_break = False
