"""Tells a follow-up question in full by code: what it leans on is carried over from the question before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from appliance.retrieval.languages import DENSE_SCRIPT, is_function_word, language_of

_WORD = re.compile(r"[^\W_][\w'’&+-]*")
_KOREAN = re.compile(r"[\uac00-\ud7af]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LEANING = _words(
    # English, German, French, Spanish, Italian: words that mean something said before.
    "he she it its they them their theirs his her him hers this that these those there one ones such former "
    "latter same both so then other others another here "
    "er sie es ihn ihm ihr ihre ihren ihrem ihrer sein seine seinen seinem seiner dessen deren dies diese dieser "
    "dieses diesen diesem dort dabei davon dazu dafür damit darin darüber "
    "il elle ils elles lui leur leurs son sa ses celui celle ceux celles cela ça "
    "él ella ello ellos ellas su sus este esta esto estos estas ese esa eso aquel aquella allí "
    "lui lei loro suo sua suoi sue questo questa questi queste quello quella quelli quelle"
)
_LEANING_SIGNS = ("它", "他", "她", "这", "那", "呢", "其", "それ", "その", "これ", "この", "彼")
_JOINING = _words("and or but und oder aber et ou mais y o pero e ma")
_ASKING = _words(
    "is are was were be been being do does did have has had will would can could may might shall should a an the of "
    "to in on for with by at from as and or but not what which who whom whose where when why how many much long "
    "far often old big large also more most into about over "
    "wer was wen wem wessen wann wo warum wie welche welcher welches wieviel viele ist sind war waren hat haben "
    "qui quoi quel quelle quels quelles quand où pourquoi comment combien est sont était "
    "qué quién cuál cuándo dónde cómo cuánto cuántos es son fue che chi quale quando dove come quanto è sono"
)
_FEW_WORDS = 1
_SHORT_DENSE = 8
_MOST_WORDS = 24


def told_in_full(question: str, asked_before: Sequence[str]) -> str:
    """Return a question with the words it leans on, from the questions asked before it, oldest first.

    A question that stands alone is returned as it is.
    """
    words = carried_words(question, asked_before)
    return f"{question} ({' '.join(words)})" if words else question


def carried_words(question: str, asked_before: Sequence[str]) -> tuple[str, ...]:
    """Return what a follow-up leans on: the names of the last question, or else its content words.

    Where that question is a follow-up itself, what it leans on is carried as well.
    """
    if not leans(question):
        return ()
    known = {word.lower() for word in _content(question)}
    carried: dict[str, str] = {}
    for place in range(len(asked_before) - 1, -1, -1):
        before = asked_before[place]
        for word in _subject(before):
            if word.lower() not in known:
                carried.setdefault(word.lower(), word)
        if carried and not leans(before):
            break
    return tuple(carried.values())[:_MOST_WORDS]


def leans(question: str) -> bool:
    """Whether a question means something that was said before: by a pronoun, or by saying too little itself."""
    words = [word.lower() for word in _WORD.findall(question)]
    if _is_dense(question):
        return any(sign in question for sign in _LEANING_SIGNS) or len("".join(words)) <= _SHORT_DENSE
    if not _LEANING.isdisjoint(words) or (words[:1] and words[0] in _JOINING):
        return True
    return len(list(_content(question))) <= _FEW_WORDS


def _is_dense(question: str) -> bool:
    return bool(DENSE_SCRIPT.search(question) or _KOREAN.search(question))


def _subject(question: str) -> list[str]:
    """Names of a question, its first word aside, which is always written with a capital; else its content words."""
    if _is_dense(question):
        return [question.strip(" ?？。.")]
    content = list(_content(question))
    first = next(iter(_WORD.findall(question)), "")
    names = [word for word in content if word != first and (word[0].isupper() or word[0].isdigit())]
    return names or content


def _content(question: str) -> Iterator[str]:
    language = language_of(question, "english")
    for word in _WORD.findall(question):
        lower = word.lower()
        if lower not in _ASKING and lower not in _LEANING and not is_function_word(lower, language):
            yield word
