"""Find the sentences of sources that an answer's sentence stands on, by how much of it they cover.

A term weighs by how rare it is among the sources' sentences; what no source says weighs most. The best
covering sentence is taken, then others as long as each adds enough that the ones before leave open.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.retrieval.languages import language_of
from appliance.retrieval.sentences import sentence_spans
from appliance.retrieval.terms import Terms, is_near_term, terms_of

# Chosen on the first half of the paragraphs of XQuAD, for precision; measured on the other half.
SUPPORT_THRESHOLD = 0.5
LEAST_GAIN = 0.35
_MOST_SENTENCES = 4
_NEAR_WEIGHT = 0.8
_SAME_PASSAGE_BONUS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSentence:
    """A sentence of a passage: its place in the passage's text and its terms."""

    passage: int
    start: int
    end: int
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The source sentences that cover an answer's sentence, and how much of it: 0 to 1."""

    sources: tuple[SourceSentence, ...]
    coverage: float


class Aligner:
    """Aligns sentences with one list of passages."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._language = language_of(" ".join(passages), "english")
        self.sentences = [
            SourceSentence(
                passage=number, start=start, end=end, terms=terms_of(text[start:end], self._language)
            )
            for number, text in enumerate(passages)
            for start, end in sentence_spans(text)
        ]
        counted = Counter(term for sentence in self.sentences for term in sentence.terms.all)
        self._holding = counted

    @property
    def language(self) -> str:
        """The language of the passages."""
        return self._language

    def terms(self, sentence: str) -> Terms:
        """Return the terms of an answer's sentence as these passages see them."""
        return terms_of(sentence, self._language)

    def align(self, terms: Terms, *, preferred: int | None = None) -> Alignment:
        """Return the best covering sentences; on equal cover the preferred passage, then the earlier one."""
        weights = {term: self._weight(term) for term in terms.all}
        total = sum(weights.values())
        if not total:
            return Alignment(sources=(), coverage=0.0)
        chosen: list[SourceSentence] = []
        open_weights = dict(weights)
        while len(chosen) < _MOST_SENTENCES and open_weights:
            best, gain = self._best(open_weights, chosen, preferred, total)
            if best is None or gain < LEAST_GAIN * total:
                break
            chosen.append(best)
            open_weights = {
                term: weight
                for term, weight in open_weights.items()
                if not (term in best.terms.all or is_near_term(term, best.terms.content))
            }
        covered = sum(self._cover(chosen, term, weight) for term, weight in weights.items())
        return Alignment(sources=tuple(chosen), coverage=covered / total)

    def _best(
        self, weights: dict[str, float], chosen: list[SourceSentence], preferred: int | None, total: float
    ) -> tuple[SourceSentence | None, float]:
        best: SourceSentence | None = None
        best_gain, best_rank = 0.0, 0.0
        for sentence in self.sentences:
            if sentence in chosen:
                continue
            gain = sum(self._cover([sentence], term, weight) for term, weight in weights.items())
            rank = gain + total * _SAME_PASSAGE_BONUS * (
                (sentence.passage == preferred) + any(sentence.passage == one.passage for one in chosen)
            )
            if gain > 0 and rank > best_rank:
                best, best_gain, best_rank = sentence, gain, rank
        return best, best_gain

    def _cover(self, sentences: Sequence[SourceSentence], term: str, weight: float) -> float:
        if any(term in sentence.terms.all for sentence in sentences):
            return weight
        if any(is_near_term(term, sentence.terms.content) for sentence in sentences):
            return weight * _NEAR_WEIGHT
        return 0.0

    def _weight(self, term: str) -> float:
        return math.log(1 + len(self.sentences) / (1 + self._holding[term]))
