"""Find the sentences of sources that an answer's sentence stands on, by how much of it they cover.

A term weighs by how rare it is among the sources' sentences; what no source says weighs most. What the sentences
right before a source sentence say counts in part, since a pronoun may stand for it. One sentence supports the whole,
or, where a comma or an `and` parts it, one each part: a subject of one source with what another says has no such seam.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.retrieval.claim_words import Claim, claim_of
from appliance.retrieval.contradiction import Contradiction, contradiction_of, lacks_subject
from appliance.retrieval.languages import DENSE_SCRIPT, language_of, stemmed
from appliance.retrieval.sentences import sentence_spans
from appliance.retrieval.spelling import plain
from appliance.retrieval.terms import Terms, is_near_term, terms_of

# Chosen on the first half of the paragraphs of XQuAD, for precision; measured on the other half.
SUPPORT_THRESHOLD = 0.5
LEAST_GAIN = 0.1
LEAST_PART_COVER = 0.6
CONTEXT_WEIGHT = 0.5
_CONTEXT_SENTENCES = 2
# Words that name a thing no closer than its source does: "the term for", "another name of", "the year in which".
_GENERIC_WORDS = {
    "english": "name named term word expression kind type sort group example way year time number amount part "
    "thing person people place call called refer referred known consider considered mean means use used another "
    "several main many much specific certain various",
    "german": "name namens begriff wort ausdruck art gruppe beispiel weise jahr zeit zahl anzahl teil ding person "
    "leute ort genannt bezeichnet bekannt gilt heißt verwendet benutzt weitere mehrere viele bestimmte verschiedene",
}
GENERIC_SHARE = 0.25
_MOST_SEAMS = 2
_LEAST_PART_WORDS = 2
_NEAR_WEIGHT = 0.8
_SAME_PASSAGE_BONUS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSentence:
    """A sentence of a passage: its place in the passage, its plain text, its terms, and those of the ones before it."""

    passage: int
    start: int
    end: int
    text: str
    terms: Terms
    context: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPart:
    """An answer's sentence, or a part of it, with the sentence it stands on and what that says otherwise."""

    text: str
    terms: Terms
    source: SourceSentence
    contradiction: Contradiction


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """What an answer's sentence stands on, part by part, and how much of it is covered: 0 to 1."""

    parts: tuple[AlignedPart, ...] = ()
    coverage: float = 0.0

    @property
    def sources(self) -> tuple[SourceSentence, ...]:
        """Every source sentence once."""
        return tuple({(one.source.passage, one.source.start): one.source for one in self.parts}.values())


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an answer's sentence with the sentence that covers most of its weight."""

    text: str
    total: float
    covered: float
    source: SourceSentence | None

    @property
    def share(self) -> float:
        return self.covered / self.total if self.total else 0.0


class _Asked:
    """One question to the aligner: what each term is worth in each sentence is found out once."""

    def __init__(self, preferred: int | None) -> None:
        self.preferred = preferred
        self._shares: dict[str, list[tuple[int, float]]] = {}

    def shares(self, term: str, sentences: Sequence[SourceSentence]) -> list[tuple[int, float]]:
        """Return the places of the sentences that have a term, with how fully they have it."""
        if term not in self._shares:
            found = ((place, _share(sentence, term)) for place, sentence in enumerate(sentences))
            self._shares[term] = [(place, share) for place, share in found if share]
        return self._shares[term]


class Aligner:
    """Aligns sentences with one list of passages."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._language = language_of(" ".join(passages), "english")
        self.sentences = [
            sentence for number, text in enumerate(passages) for sentence in self._of_passage(number, text)
        ]
        self.passages = tuple(plain(text) for text in passages)
        self._words = [
            frozenset[str]().union(*(one.terms.content for one in self.sentences if one.passage == number))
            for number in range(len(passages))
        ]
        self._generic = frozenset(
            stemmed(word, self._language) for word in _GENERIC_WORDS.get(self._language, "").split()
        )
        self._names = frozenset[str]().union(*(sentence.terms.names for sentence in self.sentences))
        self._holding = Counter(term for sentence in self.sentences for term in sentence.terms.all)

    @property
    def language(self) -> str:
        """The language of the passages."""
        return self._language

    def terms(self, sentence: str) -> Terms:
        """Return the terms of an answer's sentence as these passages see them."""
        return terms_of(sentence, self._language)

    def words_of(self, passage: int) -> frozenset[str]:
        """Return the content terms of a passage."""
        return self._words[passage]

    def align(self, text: str, *, preferred: int | None = None) -> Alignment:
        """Return the best covering sentences: one, or one for each part of the text that has its own."""
        parts = self._parts(plain(text), _Asked(preferred))
        held = tuple(
            self._compared(part.text, part.source, is_begun=number > 0)
            for number, part in enumerate(parts)
            if part.source is not None
        )
        total = sum(part.total for part in parts)
        return Alignment(parts=held, coverage=sum(part.covered for part in parts) / total if held else 0.0)

    def _compared(self, text: str, source: SourceSentence, *, is_begun: bool) -> AlignedPart:
        said = claim_of(text, self._language, self._names, is_begun=is_begun)
        found = contradiction_of(said, self._claim(source), self._stands)
        terms = terms_of(text, self._language, is_begun=is_begun)
        return AlignedPart(text=text, terms=terms, source=source, contradiction=found)

    def _part(self, text: str, asked: _Asked, beside: SourceSentence | None = None) -> _Part:
        """Return the sentence that covers most of a text; on equal cover the preferred passage, then the earlier."""
        terms = self.terms(text).all
        total = sum(self._weight(term) for term in terms)
        covers = [0.0] * len(self.sentences)
        for term in terms:
            weight = self._weight(term)
            for place, share in asked.shares(term, self.sentences):
                covers[place] += share * weight
        bonus = _SAME_PASSAGE_BONUS * total
        near = (asked.preferred, beside.passage if beside is not None else None)
        ranks = [
            cover + bonus * near.count(one.passage) for cover, one in zip(covers, self.sentences, strict=True)
        ]
        best = max(range(len(ranks)), key=ranks.__getitem__, default=0)
        if not any(covers) or not covers[best]:
            return _Part(text, total, 0.0, None)
        return _Part(text, total, covers[best], self.sentences[best])

    def _parts(self, text: str, asked: _Asked, depth: int = _MOST_SEAMS) -> list[_Part]:
        """Return the parts of a sentence that stand on different sources; one part when one source is enough."""
        whole = self._part(text, asked)
        if not depth or whole.source is None:
            return [whole]
        splits = [
            (left, self._part(text[seam:], asked, left.source))
            for seam in self._seams(text)
            for left in [self._part(text[:seam], asked)]
        ]
        useful = [(left, right) for left, right in splits if self._is_better(whole, left, right)]
        if not useful:
            return [whole]
        left, right = max(useful, key=lambda split: split[0].covered + split[1].covered)
        return [*self._parts(left.text, asked, depth - 1), *self._parts(right.text, asked, depth - 1)]

    def _seams(self, text: str) -> list[int]:
        words = claim_of(text, self._language).words
        inner = words[_LEAST_PART_WORDS : len(words) - _LEAST_PART_WORDS + 1]
        return [word.start for word in inner if word.follows_break]

    def _is_better(self, whole: _Part, left: _Part, right: _Part) -> bool:
        if left.source is None or right.source is None or left.source == right.source:
            return False
        gain = left.covered + right.covered - whole.covered
        if min(left.share, right.share) < LEAST_PART_COVER or gain < LEAST_GAIN * whole.total:
            return False
        if left.source.passage == right.source.passage:
            return True
        said = claim_of(right.text, self._language, self._names, is_begun=True)
        return not lacks_subject(said, self._claim(right.source))

    def _stands(self, words: str) -> bool:
        return (words in self._holding and words not in self._generic) or (
            DENSE_SCRIPT.search(words) is not None and any(words in passage for passage in self.passages)
        )

    def _claim(self, sentence: SourceSentence) -> Claim:
        return claim_of(sentence.text, self._language, self._names)

    def _of_passage(self, number: int, text: str) -> list[SourceSentence]:
        spans = sentence_spans(text)
        terms = [terms_of(text[start:end], self._language) for start, end in spans]
        return [
            SourceSentence(
                passage=number,
                start=start,
                end=end,
                text=plain(text[start:end]),
                terms=terms[place],
                context=frozenset[str]().union(
                    *(one.content for one in terms[max(0, place - _CONTEXT_SENTENCES) : place])
                ),
            )
            for place, (start, end) in enumerate(spans)
        ]

    def _weight(self, term: str) -> float:
        share = GENERIC_SHARE if term in self._generic else 1.0
        return share * math.log(1 + len(self.sentences) / (1 + self._holding[term]))


def _share(sentence: SourceSentence, term: str) -> float:
    if term in sentence.terms.all:
        return 1.0
    if is_near_term(term, sentence.terms.content):
        return _NEAR_WEIGHT
    return CONTEXT_WEIGHT if term in sentence.context else 0.0
