"""Word stems by language: a passage is stemmed in its own language, a query in every language that is stored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import repeat
from typing import TYPE_CHECKING

from appliance.core.errors import ConfigError

if TYPE_CHECKING:
    from py_rust_stemmers import SnowballStemmer

_FUNCTION_WORDS = {
    "english": "the of and to in is that for it as was with be by on not he his but at are this have from or had an",
    "german": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden zum",
    "french": "de la le et les des en un du une que est pour qui dans par plus pas au sur ne se sont avec ce il",
    "spanish": "de la que el en y los del se las por un para con no una su al lo como más pero sus le ya o este",
    "italian": "di e il la che in un a per è una sono con non si da come le dei del nel alla più anche ma gli della",
    "portuguese": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das",
    "dutch": "de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er maar om hem dan zou",
    "swedish": "och det att i en jag hon som han på den med var sig för så till är men ett om hade de av icke mig",
    "danish": "og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min",
    "norwegian": "og i jeg det at en et den til er som på de med han av ikke der så var meg seg men ett har om vi",
    "finnish": "olla ja on ei se että hän oli joka mutta niin kuin ovat myös sekä mukaan tai jos kun siitä sen ole",
    "russian": "и в не на я что с он как это по но из у за к от так для же о бы его то все она мы быть",
    "turkish": "ve bir bu da de için ile o ne çok olarak daha gibi olan ama ki her kadar en sonra var mı değil",
}
# Ranges of a regular expression's character class.
CHINESE_JAPANESE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_THAI = r"\u0e00-\u0e7f"
# Scripts that are written without spaces between words.
DENSE_CHARACTERS = f"{_THAI}{CHINESE_JAPANESE}"
DENSE_SCRIPT = re.compile(f"[{DENSE_CHARACTERS}]")
_SCRIPTS = {
    "Chinese or Japanese": re.compile(f"[{CHINESE_JAPANESE}]"),
    "Korean": re.compile(r"[\u1100-\u11ff\uac00-\ud7af]"),
    "Greek": re.compile(r"[\u0370-\u03ff]"),
    "Cyrillic script": re.compile(r"[\u0400-\u052f]"),
    "Hebrew": re.compile(r"[\u0590-\u05ff]"),
    "Arabic script": re.compile(r"[\u0600-\u06ff]"),
    "Indic script": re.compile(r"[\u0900-\u0dff]"),
    "Thai": re.compile(f"[{_THAI}]"),
}
_WORD = re.compile(r"[^\W\d_]+")
_WORD_ALONE = re.compile(f"({_WORD.pattern})")
_SAMPLE_CHARACTERS = 4_000
_LEAST_SHARE = 0.06


def check_language(name: str) -> str:
    """Return the name of a language as stemmers know it.

    Raises:
        ConfigError: it is none of those known.
    """
    if name.lower() not in _FUNCTION_WORDS:
        known = ", ".join(language.capitalize() for language in _FUNCTION_WORDS)
        raise ConfigError(f"full text knows no language {name!r}", hint=f"one of: {known}")
    return name.lower()


def language_of(text: str, otherwise: str) -> str:
    """Tell the language of a text by its function words; `otherwise` when too few say anything."""
    words = Counter(_WORD.findall(text[:_SAMPLE_CHARACTERS].lower()))
    hits = {
        language: sum(words[word] for word in words.keys() & function_words)
        for language, function_words in _function_words().items()
    }
    best = max(hits, key=lambda language: hits[language])
    is_clear = hits[best] >= max(1, _LEAST_SHARE * words.total()) and hits[best] > hits.get(otherwise, 0)
    return best if is_clear else otherwise


def script_language(text: str) -> str:
    """Name the language, or the family of languages, that a text's letters belong to; empty when it may be many."""
    letters = [character for character in text if character.isalpha()]
    for name, script in _SCRIPTS.items():
        if 2 * sum(script.match(letter) is not None for letter in letters) > len(letters):
            return name
    return ""


def stemmed(text: str, language: str) -> str:
    """Return a text with each word replaced by its stem; what stands between words stays."""
    pieces = _WORD_ALONE.split(text.lower())
    pieces[1::2] = map(_stem, pieces[1::2], repeat(language))
    return "".join(pieces)


def stemmed_query(query: str, languages: Iterable[str]) -> str:
    """Return the stems of a query's words in each language, each once."""
    variants = [stemmed(query, language) for language in sorted(set(languages))]
    if not variants:
        return query
    known = set(_WORD.findall(variants[0]))
    extra: list[str] = []
    for variant in variants[1:]:
        for stem in _WORD.findall(variant):
            if stem not in known:
                known.add(stem)
                extra.append(stem)
    return " ".join([variants[0], *extra])


def is_function_word(word: str, language: str) -> bool:
    """Whether a lower-case word only holds sentences of the language together."""
    return word in _function_words().get(language, frozenset())


@lru_cache(maxsize=1)
def _function_words() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}


@lru_cache(maxsize=50_000)
def _stem(word: str, language: str) -> str:
    stem: str = _stemmer(language).stem_word(word)
    return stem


@cache
def _stemmer(language: str) -> SnowballStemmer:
    from py_rust_stemmers import SnowballStemmer

    return SnowballStemmer(language)
