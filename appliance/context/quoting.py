"""Chooses by code the sentences of passages that answer a question, and widens a model's quotes to sentences.

A sentence scores by the weight of the question's terms that it has, by its cosine to the question, and by
how well its passage was found. What is chosen is a span of the stored text, so it cannot be invented.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.core.ports import Vector
from appliance.retrieval.languages import language_of
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.sentences import sentence_spans
from appliance.retrieval.terms import Terms, is_near_term, terms_of

MAX_QUOTE_CHARACTERS = 400
# All chosen on questions about the first half of XQuAD's paragraphs; with the threshold, 6 of 100 answerable
# questions are refused, and 84 of 100 whose paragraph is gone.
LEAST_RELEVANCE = 0.42
_COSINE_SHARE = 0.5
_PASSAGE_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceQuote:
    """A sentence of a passage, counted from 0: characters `start` to `end` of the passage's text.

    `relevance` is how near it is to the question by itself; `score` also says how well its passage was found.
    """

    passage: int
    start: int
    end: int
    relevance: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionEmbedding:
    """The two ways to embed that are needed; without them sentences are judged by their words."""

    embed: Callable[[Sequence[str]], list[Vector]]
    embed_query: Callable[[str], Vector]
    fits: Callable[[str], bool]
    fits_query: Callable[[str], bool]


def choose_sentences(
    question: str,
    passages: Sequence[StoredChunk],
    passage_scores: Sequence[float],
    *,
    embedding: QuestionEmbedding | None = None,
    limit: int = 2,
) -> tuple[SentenceQuote, ...]:
    """Return the sentences that most likely hold the answer, best first."""
    spans = [
        (place, start, end)
        for place, passage in enumerate(passages)
        for start, end in sentence_spans(passage.text)
        if passage.text[start:end].strip()
    ]
    texts = [passages[place].text[start:end] for place, start, end in spans]
    covers = _covers(question, texts)
    cosines = _cosines(question, texts, embedding)
    relevances = [
        cover if cosine is None else _COSINE_SHARE * cosine + (1 - _COSINE_SHARE) * cover
        for cover, cosine in zip(covers, cosines, strict=True)
    ]
    best_passage = max(passage_scores, default=0.0) or 1.0
    quotes = [
        SentenceQuote(
            passage=place,
            start=start,
            end=_cut_end(passages[place].text, start, end),
            relevance=relevance,
            score=relevance + _PASSAGE_SHARE * passage_scores[place] / best_passage,
        )
        for (place, start, end), relevance in zip(spans, relevances, strict=True)
    ]
    return tuple(sorted(quotes, key=lambda quote: (-quote.score, quote.passage, quote.start))[:limit])


def quote_text(passage: StoredChunk, quote: SentenceQuote) -> str:
    """Return the words of a quote as the passage has them."""
    return passage.text[quote.start : quote.end]


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the sentences that a span touches, unless that is longer than a quote may be."""
    touched = [span for span in sentence_spans(text) if span[0] < end and start < span[1]]
    if not touched:
        return start, end
    wide = (min(start, touched[0][0]), max(end, touched[-1][1]))
    return wide if wide[1] - wide[0] <= MAX_QUOTE_CHARACTERS else (start, end)


def _cut_end(text: str, start: int, end: int) -> int:
    """A very long sentence is quoted up to a word's end within the bound."""
    if end - start <= MAX_QUOTE_CHARACTERS:
        return end
    border = text.rfind(" ", start, start + MAX_QUOTE_CHARACTERS)
    return start + MAX_QUOTE_CHARACTERS if border <= start else border


def _covers(question: str, sentences: Sequence[str]) -> list[float]:
    """The share of the question's terms each sentence has; terms that few sentences have weigh more."""
    language = language_of(" ".join(sentences), "english")
    terms = [terms_of(sentence, language) for sentence in sentences]
    holding = Counter(term for one in terms for term in one.all)
    wanted = terms_of(question, language).all
    weights = {term: math.log(1 + len(sentences) / (1 + holding[term])) for term in wanted}
    total = sum(weights.values())
    return [_cover(one, weights) / total if total else 0.0 for one in terms]


def _cover(terms: Terms, weights: dict[str, float]) -> float:
    return sum(
        weight for term, weight in weights.items() if term in terms.all or is_near_term(term, terms.content)
    )


def _cosines(
    question: str, sentences: Sequence[str], embedding: QuestionEmbedding | None
) -> list[float | None]:
    """Cosine of question and sentence; None for what the embedder would have to cut."""
    cosines: list[float | None] = [None] * len(sentences)
    if embedding is None or not sentences or not embedding.fits_query(question):
        return cosines
    fitting = [place for place, sentence in enumerate(sentences) if embedding.fits(sentence)]
    asked = embedding.embed_query(question)
    vectors = embedding.embed([sentences[place] for place in fitting])
    for place, vector in zip(fitting, vectors, strict=True):
        cosines[place] = sum(a * b for a, b in zip(asked, vector, strict=True))
    return cosines
