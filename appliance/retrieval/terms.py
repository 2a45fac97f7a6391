"""What a sentence says, as terms that can be compared: stems of content words, numbers, and names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from appliance.retrieval.languages import CHINESE_JAPANESE, is_function_word, stemmed
from appliance.retrieval.opposites import is_denial
from appliance.retrieval.spelling import NUMBER, is_number, normal_number, plain

# A word of letters ends where characters of a script without spaces begin.
_TOKEN = re.compile(
    rf"{NUMBER}|[{CHINESE_JAPANESE}]+|[^\W\d_{CHINESE_JAPANESE}]+",
)
_CHINESE_JAPANESE = re.compile(f"[{CHINESE_JAPANESE}]")
# Two characters in a row with one of these hold a Chinese sentence together; hiragana do that in Japanese.
FUNCTION_CHARACTERS = re.compile(
    "[的了是什么哪谁吗呢几些怎和与及或被把这那以于从之所也而在有为何个]|^[\u3041-\u309f]+$"
)
NUMBER_WORDS = {
    word: value
    for value, words in enumerate(
        (
            "zero null", "", "two zwei", "three drei", "four vier", "five fünf", "six sechs",
            "seven sieben", "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf",
            "thirteen dreizehn", "fourteen vierzehn", "fifteen fünfzehn", "sixteen sechzehn",
            "seventeen siebzehn", "eighteen achtzehn", "nineteen neunzehn", "twenty zwanzig",
        )
    )
    for word in words.split()
}  # fmt: skip
NUMBER_WORDS |= {
    "thirty": 30, "dreißig": 30, "forty": 40, "vierzig": 40, "fifty": 50, "fünfzig": 50, "sixty": 60,
    "sechzig": 60, "seventy": 70, "siebzig": 70, "eighty": 80, "achtzig": 80, "ninety": 90, "neunzig": 90,
    "hundred": 100, "hundert": 100, "thousand": 1000, "tausend": 1000,
}  # fmt: skip
_TALK = frozenset(
    ("yes", "no", "answer", "question", "according", "text", "document", "documents", "context", "passage",
     "passages", "source", "sources", "following", "based", "information", "provided", "sure", "here", "certainly",
     "ja", "nein", "antwort", "laut", "dokument", "when", "what", "which", "who", "whom", "whose", "where", "why",
     "how", "do", "does", "did", "can", "could", "would", "should", "wann", "was", "wer", "wo", "warum", "wie",
     "welche", "welcher", "welches")
)  # fmt: skip
_GRAM = 4
_LEAST_SHARED_PARTS = 0.6


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a sentence. `numbers` are normalised digits; `names` are capitalised words after the first."""

    content: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    has_negation: bool

    @property
    def is_claim(self) -> bool:
        """Whether the sentence says anything that a source could support."""
        return bool(self.numbers) or len(self.content) >= 2

    @property
    def all(self) -> frozenset[str]:
        """Content and numbers together."""
        return self.content | self.numbers


def terms_of(sentence: str, language: str, *, is_begun: bool = False) -> Terms:
    """Return the terms of a sentence, or of the rest of one whose beginning is left out."""
    sentence = plain(sentence)
    content: set[str] = set()
    numbers: set[str] = set()
    has_negation = "n't" in sentence or "n’t" in sentence
    for token in _TOKEN.findall(sentence):
        word = token.lower()
        if is_number(token):
            numbers.add(normal_number(word))
        elif word in NUMBER_WORDS:
            numbers.add(str(NUMBER_WORDS[word]))
        elif is_denial(word, language):
            has_negation = True
        elif _CHINESE_JAPANESE.search(word):
            pairs = (word[start : start + 2] for start in range(max(1, len(word) - 1)))
            content.update(pair for pair in pairs if not FUNCTION_CHARACTERS.search(pair))
        elif len(word) > 1 and not is_function_word(word, language) and word not in _TALK:
            content.add(stemmed(word, language))
    names = _names(sentence, language, is_begun)
    return Terms(frozenset(content), frozenset(numbers), names, has_negation)


def is_talk(word: str) -> bool:
    """Whether a lower-case word belongs to asking and answering rather than to what is said."""
    return word in _TALK


def is_near_term(term: str, others: frozenset[str]) -> bool:
    """Whether a word is a form or a part of one of the others: they share most of their letters in a row."""
    if len(term) < _GRAM + 1:
        return False
    parts = _parts(term)
    for other in others:
        if len(other) > _GRAM and (other[:3] == term[:3] or term in other or other in term):
            theirs = _parts(other)
            if len(parts & theirs) >= _LEAST_SHARED_PARTS * min(len(parts), len(theirs)):
                return True
    return False


def _parts(word: str) -> set[str]:
    return {word[start : start + _GRAM] for start in range(len(word) - _GRAM + 1)}


def _names(sentence: str, language: str, is_begun: bool) -> frozenset[str]:
    # German writes every noun with a capital, so capitals say nothing there.
    if language == "german":
        return frozenset()
    words = [token for token in _TOKEN.findall(sentence) if not is_number(token)]
    inner = words if is_begun else words[1:]
    names = {word.lower() for word in inner if word[0].isupper() and len(word) > 1}
    return frozenset(
        stemmed(name, language)
        for name in names
        if not is_function_word(name, language) and name not in _TALK and name not in NUMBER_WORDS
    )
