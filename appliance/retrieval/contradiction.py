"""Where a sentence says something else than the source that it is nearly in the words of.

The two are aligned word by word in order, without their denials. Between words that agree, another number or name in
the same place or an opposite is a contradiction; words left out, added or moved are none. So is a denial of what the
other states, whether it was added, left out or moved to other words; moved within its clause it still denies the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations, pairwise

from appliance.retrieval.claim_words import Claim, ClaimWord
from appliance.retrieval.languages import DENSE_SCRIPT, stemmed
from appliance.retrieval.opposites import denies_forward, dense_opposites, opposites_of
from appliance.retrieval.spelling import NUMBER, normal_number
from appliance.retrieval.terms import is_near_term

_SKIP = 1.0
# A little more than a skip, so that two neighbours that changed places are not two that were replaced.
_REPLACE = 1.01
_LEAST_AGREEING = 0.4
_LEAST_AGREEING_BESIDE_SUBJECT = 0.7
_BESIDE = 2
_NEAR_PARTNER = 3
_NOUNS_ARE_CAPITAL = ("german",)
# What else begins an English sentence without an article: a determiner, a plural, an adverb, a participle.
_DETERMINERS = (
    "Some",
    "Many",
    "Most",
    "Several",
    "Such",
    "Each",
    "Every",
    "All",
    "Any",
    "Other",
    "Another",
    "More",
)
_COMMON_ENDINGS = ("s", "ly", "ing", "ed")
# Longer pairs would take seconds; they are held to numbers, names and denials alone.
_MOST_CELLS = 250_000

_SIGNED_NUMBER = re.compile(rf"([€$£¥₹₽])?\s?({NUMBER})\s?([€$£¥₹₽%])?")

_Pairs = list[tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a source says otherwise: words of the sentence in whose place it has others, and whether one denies."""

    words: tuple[str, ...]
    has_other_polarity: bool


def contradiction_of(said: Claim, source: Claim, stands_elsewhere: Callable[[str], bool]) -> Contradiction:
    """Compare a sentence, or a part of one, with its source.

    Args:
        stands_elsewhere: whether a term, or characters of a text without spaces, stand in any source.
    """
    pairs = _aligned(said.words, source.words)
    gaps = _gaps(said.words, source.words, pairs)
    found = [word.text for gap in gaps for word in _replaced(gap, said, source)]
    if said.names_agent == source.names_agent:
        found += [word.text for word in _changed_places([gap for gap in gaps if gap.is_narrow])]
    if _agreeing_share(said, gaps) >= _LEAST_AGREEING_BESIDE_SUBJECT:
        found += [word.text for gap in gaps[:1] for word in _other_subject(gap, source, stands_elsewhere)]
        found += [
            word.text for gap in gaps[:1] for word in _bare_subject(gap, said, source, stands_elsewhere)
        ]
    found += [run for gap in gaps if (run := _other_run(gap, said, source, stands_elsewhere))]
    found += _turned_numbers(said.words, source.words)
    found += _other_signs(said.text, source.text)
    found += [one for one, other in dense_opposites() if _has_only(said.text, source.text, one, other)]
    return Contradiction(tuple(dict.fromkeys(found)), _denies_differently(said, source, pairs))


def lacks_subject(said: Claim, source: Claim) -> bool:
    """Whether a source begins with words that a part of a sentence leaves out, so that they may be another's."""
    gaps = _gaps(said.words, source.words, _aligned(said.words, source.words))
    return bool(gaps) and any(word.kind in ("word", "name") for word in gaps[0].source)


@dataclass(frozen=True, slots=True)
class _Gap:
    """Words between two pairs that agree; `is_left_held` and `is_right_held` say whether there is such a pair."""

    said: tuple[ClaimWord, ...]
    source: tuple[ClaimWord, ...]
    is_left_held: bool
    is_right_held: bool

    @property
    def is_narrow(self) -> bool:
        """Whether it is a place for a word or two on both sides, or for names alone."""
        both = (*self.said, *self.source)
        return max(len(self.said), len(self.source)) <= _BESIDE or all(word.kind == "name" for word in both)

    def beside(self) -> Iterator[tuple[tuple[ClaimWord, ...], tuple[ClaimWord, ...]]]:
        """Yield the words on both sides that stand next to an agreeing pair."""
        if self.is_left_held:
            yield self.said[:_BESIDE], self.source[:_BESIDE]
        if self.is_right_held:
            yield self.said[-_BESIDE:], self.source[-_BESIDE:]


def _replaced(gap: _Gap, said: Claim, source: Claim) -> Iterator[ClaimWord]:
    """Yield words of a gap in whose place the source has others of their kind.

    In a narrow gap two that changed places count too, unless one of the sentences is passive; beside a wide one, only
    what the other sentence lacks.
    """
    if gap.is_narrow and said.names_agent == source.names_agent:
        yield from _unlike(gap.said, gap.source)
    for here, there in gap.beside():
        yield from _unlike(
            [word for word in here if not _has(source.words, word)],
            [word for word in there if not _has(said.words, word)],
        )
    terms = frozenset[str]().union(*(_stems(word, source.language) for word in gap.source))
    for word in gap.said:
        if any(opposites_of(stem, said.language) & terms for stem in _stems(word, said.language)):
            yield word


def _stems(word: ClaimWord, language: str) -> frozenset[str]:
    """A word of a number, such as `thousand`, has opposites too."""
    return frozenset((word.term, stemmed(word.text, language)))


def _changed_places(gaps: Sequence[_Gap]) -> Iterator[ClaimWord]:
    """Yield what stands where the source has another word that the sentence has in the first one's place."""
    for one, other in combinations(gaps, 2):
        here = [word for word in one.said if _has(other.source, word)]
        there = [word for word in other.said if _has(one.source, word)]
        if here and there:
            yield from (*here, *there)


def _unlike(said: Sequence[ClaimWord], source: Sequence[ClaimWord]) -> Iterator[ClaimWord]:
    """Yield the numbers if both sides have some and none in common, and the names likewise."""
    for kind in ("number", "name"):
        here = [word for word in said if word.kind == kind]
        there = [word for word in source if word.kind == kind]
        if here and there and not any(_is_like(one, other) for one in here for other in there):
            yield from here


def _other_subject(gap: _Gap, source: Claim, stands_elsewhere: Callable[[str], bool]) -> Iterator[ClaimWord]:
    """Yield what a sentence begins with if its source begins otherwise and another sentence says that word."""
    if gap.is_left_held or not gap.is_right_held or not gap.said or not gap.source:
        return
    one, other = gap.said[-1], gap.source[-1]
    if (
        one.kind in ("word", "name")
        and other.kind in ("word", "name")
        and not _has(source.words, one)
        and stands_elsewhere(one.term)
    ):
        yield one


def _bare_subject(
    gap: _Gap, said: Claim, source: Claim, stands_elsewhere: Callable[[str], bool]
) -> Iterator[ClaimWord]:
    """Yield a first word of no source that must be a name, as it has no article, in place of another subject."""
    if len(gap.said) != 1 or not gap.is_right_held or said.language in _NOUNS_ARE_CAPITAL:
        return
    (one,) = gap.said
    following = next((word for word in said.words if word.start > one.start), None)
    is_bare = following is not None and said.text[one.start : following.start].split() == [one.text]
    is_first = one.is_capital and not said.text[: one.start].strip()
    replaces = any(word.kind in ("word", "name") for word in gap.source) and not _has(source.words, one)
    is_common = one.text in _DETERMINERS or one.text.endswith(_COMMON_ENDINGS)
    if is_first and is_bare and replaces and not is_common and not stands_elsewhere(one.term):
        yield one


def _other_run(gap: _Gap, said: Claim, source: Claim, stands_elsewhere: Callable[[str], bool]) -> str:
    """Return characters of a text without spaces that stand for others, if another sentence has them."""
    run, theirs = ("".join(word.text for word in words) for words in (gap.said, gap.source))
    if not DENSE_SCRIPT.search(run) or min(len(run), len(theirs)) < _BESIDE or set(run) & set(theirs):
        return ""
    is_replaced = run in said.text and run not in source.text and stands_elsewhere(run)
    return run if is_replaced else ""


def _turned_numbers(said: Sequence[ClaimWord], source: Sequence[ClaimWord]) -> list[str]:
    """Return two numbers side by side, as of a range, that the source has the other way round."""
    theirs = _neighbouring_numbers(source)
    return [
        text
        for (first, second), texts in _neighbouring_numbers(said).items()
        if (second, first) in theirs and (first, second) not in theirs
        for text in texts
    ]


def _neighbouring_numbers(words: Sequence[ClaimWord]) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (one.term, other.term): (one.text, other.text)
        for one, other in pairwise(words)
        if one.term != other.term and _is_of_digits(one) and _is_of_digits(other)
    }


def _is_of_digits(word: ClaimWord) -> bool:
    return word.term.lstrip("-")[:1].isdigit()


def _other_signs(said: str, source: str) -> list[str]:
    """Return numbers with another sign of a currency or share than the source has with them."""
    theirs = _signs_of(source)
    return [
        number
        for number, signs in _signs_of(said).items()
        if signs and theirs.get(number) and not signs & theirs[number]
    ]


def _signs_of(text: str) -> dict[str, set[str]]:
    signs: dict[str, set[str]] = {}
    for match in _SIGNED_NUMBER.finditer(text):
        found = {sign for sign in (match.group(1), match.group(3)) if sign}
        signs.setdefault(normal_number(match.group(2)), set()).update(found)
    return signs


def _has_only(said: str, source: str, one: str, other: str) -> bool:
    return one in said and other not in said and other in source and one not in source


def _denies_differently(said: Claim, source: Claim, pairs: _Pairs) -> bool:
    """Whether one of the two denies what the other states: a denial stands alone among words that agree."""
    if any(word.kind == "denial" for word in said.words) and not any(word.denies for word in source.words):
        return True
    agreeing = {
        here: there
        for here, there in pairs
        if here is not None and there is not None and _agrees(said.words[here], source.words[there])
    }
    here, there = _Denials(said, agreeing), _Denials(source, {two: one for one, two in agreeing.items()})
    joined = {(one, two) for one in here.places for two in there.places if here.meets(one, there, two)}
    return not (
        _all_find_one(here.needing(any), joined)
        and _all_find_one(there.needing(all), {(two, one) for one, two in joined})
    )


class _Denials:
    """What denies in one sentence alone or may, and what stands near it that the other sentence has too."""

    def __init__(self, claim: Claim, agreeing: dict[int, int]) -> None:
        self.words = claim.words
        self.places = [
            place for place, word in enumerate(self.words) if word.denies and place not in agreeing
        ]
        self._language = claim.language
        self._agreeing = agreeing
        self._clauses = list(accumulate(int(word.follows_break) for word in self.words))

    def needing(self, on_sides: Callable[[list[bool]], bool]) -> list[int]:
        """Return the denials that stand among words that agree, on any or all of their sides."""
        return [
            place
            for place in self.places
            if self.words[place].kind == "denial"
            and (((held := self._held(place)) and on_sides(held)) or self._denies_what_agrees(place))
        ]

    def meets(self, place: int, other: _Denials, there: int) -> bool:
        """Whether two denials deny the same: each near the other's neighbours, within one clause."""
        return self._reaches(place, other, there) or other._reaches(there, self, place)

    def _reaches(self, place: int, other: _Denials, there: int) -> bool:
        near = [beside for side in self._sides(place) for beside in side if beside in self._agreeing]
        own = [beside for beside in near if self._clauses[beside] == self._clauses[place]]
        partners = [self._agreeing[beside] for beside in own or near]
        return any(
            abs(partner - there) <= _NEAR_PARTNER
            and (not own or other._clauses[partner] == other._clauses[there])
            for partner in partners
        )

    def _held(self, place: int) -> list[bool]:
        return [any(beside in self._agreeing for beside in side) for side in self._sides(place) if side]

    def _sides(self, place: int) -> tuple[range, range]:
        end = min(len(self.words), place + 1 + _BESIDE)
        if self._is_forward(place):
            end = next((one for one in range(place + 1, end) if self.words[one].follows_break), end)
        return range(max(0, place - _BESIDE), place), range(place + 1, end)

    def _denies_what_agrees(self, place: int) -> bool:
        return self._is_forward(place) and any(one in self._agreeing for one in self._sides(place)[1][:1])

    def _is_forward(self, place: int) -> bool:
        return denies_forward(self.words[place].text.lower(), self._language)


def _all_find_one(places: Sequence[int], joined: set[tuple[int, int]]) -> bool:
    """Whether each of the places can be joined with another of its own."""
    taken: dict[int, int] = {}

    def finds(place: int, tried: set[int]) -> bool:
        for other in sorted(two for one, two in joined if one == place and two not in tried):
            tried.add(other)
            if other not in taken or finds(taken[other], tried):
                taken[other] = place
                return True
        return False

    return all(finds(place, set()) for place in places)


def _has(words: Sequence[ClaimWord], wanted: ClaimWord) -> bool:
    return any(_is_like(wanted, word) for word in words)


def _agrees(one: ClaimWord, other: ClaimWord) -> bool:
    return "denial" not in (one.kind, other.kind) and _is_like(one, other)


def _is_like(one: ClaimWord, other: ClaimWord) -> bool:
    return one.term == other.term or (one.kind != "number" and _are_near(one.term, other.term))


@lru_cache(maxsize=20_000)
def _are_near(term: str, other: str) -> bool:
    return is_near_term(term, frozenset((other,)))


def _agreeing_share(said: Claim, gaps: Sequence[_Gap]) -> float:
    unlike = sum(len(gap.said) for gap in gaps)
    return 1 - unlike / len(said.words) if gaps and said.words else 0.0


def _gaps(said: Sequence[ClaimWord], source: Sequence[ClaimWord], pairs: _Pairs) -> list[_Gap]:
    """Return what stands between agreeing words; nothing when too few agree to compare the two by order."""
    gaps: list[_Gap] = []
    here: list[ClaimWord] = []
    there: list[ClaimWord] = []
    for one, other in pairs:
        if one is not None and other is not None and _agrees(said[one], source[other]):
            gaps.append(_Gap(tuple(here), tuple(there), bool(gaps), True))
            here, there = [], []
            continue
        here += [said[one]] if one is not None else []
        there += [source[other]] if other is not None else []
    agreed = len(gaps)
    gaps.append(_Gap(tuple(here), tuple(there), bool(gaps), False))
    return (
        gaps
        if agreed and agreed >= _LEAST_AGREEING * len([word for word in said if word.kind != "denial"])
        else []
    )


def _aligned(said: Sequence[ClaimWord], source: Sequence[ClaimWord]) -> _Pairs:
    """Return the cheapest pairing in order, without denials; None stands for a word without a partner."""
    if len(said) * len(source) > _MOST_CELLS:
        return []
    here = [place for place, word in enumerate(said) if word.kind != "denial"]
    there = [place for place, word in enumerate(source) if word.kind != "denial"]
    pairs = _cheapest([said[place] for place in here], [source[place] for place in there])
    return [
        (here[one] if one is not None else None, there[other] if other is not None else None)
        for one, other in pairs
    ]


def _cheapest(said: Sequence[ClaimWord], source: Sequence[ClaimWord]) -> _Pairs:
    prices = [[_price(one, other) for other in source] for one in said]
    costs = [[_SKIP * (row + column) for column in range(len(source) + 1)] for row in range(len(said) + 1)]
    for row in range(1, len(said) + 1):
        for column in range(1, len(source) + 1):
            costs[row][column] = min(
                costs[row - 1][column] + _SKIP,
                costs[row][column - 1] + _SKIP,
                costs[row - 1][column - 1] + prices[row - 1][column - 1],
            )
    return _path(costs, prices)


def _price(one: ClaimWord, other: ClaimWord) -> float:
    return 0.0 if _agrees(one, other) else _REPLACE


def _path(costs: list[list[float]], prices: list[list[float]]) -> _Pairs:
    """Walk back from the end along the cheapest steps."""
    row, column = len(costs) - 1, len(costs[0]) - 1
    pairs: _Pairs = []
    while row or column:
        here = costs[row][column]
        if row and column and _is_same(here, costs[row - 1][column - 1] + prices[row - 1][column - 1]):
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif row and _is_same(here, costs[row - 1][column] + _SKIP):
            row -= 1
            pairs.append((row, None))
        else:
            column -= 1
            pairs.append((None, column))
    return pairs[::-1]


def _is_same(cost: float, other: float) -> bool:
    return abs(cost - other) < 1e-6
