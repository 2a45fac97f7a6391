"""Hold an answer against its sources, in code: which sentence stands on which words of which page.

The model's own source numbers are read as claims and checked; verdicts come from here. A quote is `verified`
when it stands in the passage it names, `near` when only white space or hyphenation differ, `wrong_source` when
it stands in another one (the pointer is corrected), `absent` when it stands nowhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from appliance.retrieval.alignment import SUPPORT_THRESHOLD, AlignedPart, Aligner, Alignment
from appliance.retrieval.languages import language_of, stemmed
from appliance.retrieval.quotes import find_quote
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.sentences import sentence_spans
from appliance.retrieval.terms import Terms, is_near_term, terms_of
from appliance.retrieval.trace import SearchResult

REFUSAL = "I don't have enough information to answer that."
# Chosen on the first half of XQuAD's paragraphs, so that 95 of 100 answerable questions are answered.
EVIDENCE_THRESHOLD = 0.4
_SIMILARITY_SHARE = 0.5
_FOREIGN_SIMILARITY_SHARE = 0.2

Verdict = Literal["verified", "near", "wrong_source", "absent"]

# "Apollo 1" and "Super Bowl 50": the number belongs to the name.
_NUMBERED_NAME = re.compile(r"\b[A-Z]\w*[ -](\d+)\b")
# Names of other languages in Chinese: what stands right beside the dot shows whether it is the same one.
_DOTTED_NAME = re.compile(r"\w[·・]\w")
_ITEM_MARK = re.compile(r"(?:[-*•]|\(?\d{1,3}[.)])")
_LEADING_ITEM_MARK = re.compile(rf"^{_ITEM_MARK.pattern}[ \t]+")
_BEFORE_ITEM = re.compile(rf"\n[ \t]*(?={_ITEM_MARK.pattern}(?:[ \t]|$))")
_CLAIMED = r"\d{1,3}(?:\s*[-–]\s*\d{1,3})?"
# "[2]", "[2, 4]", "[2-4]", or several of them in a row.
MARKERS = re.compile(rf"(?:\s*\[{_CLAIMED}(?:\s*,\s*{_CLAIMED})*\])+")
_RANGE = re.compile(r"(\d+)(?:\s*[-–]\s*(\d+))?")
_MOST_IN_RANGE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A pointer from an answer into a document: `quote` is its characters `start` to `end`, word for word.

    `passage` numbers the given passages from 1; `claimed_passage` is what the model said, 0 when it said
    nothing. An absent quote has no place: its passage is 0 and its span empty.
    """

    verdict: Verdict
    quote: str
    passage: int
    claimed_passage: int
    document_id: str
    source: str
    place: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSupport:
    """One sentence of an answer, characters `start` to `end` of it, with what supports it.

    `missing` are numbers and names that its sources do not have, and words in whose place they have others; with one
    of them, or with a negation on one side only, it is not supported however many of its words are covered.
    """

    text: str
    start: int
    end: int
    is_claim: bool
    is_supported: bool
    coverage: float
    missing: tuple[str, ...]
    has_other_polarity: bool
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundedAnswer:
    """An answer with its support. `supported_share` counts sentences that claim something; 1 when none does."""

    text: str
    sentences: tuple[SentenceSupport, ...]
    supported_share: float

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Every citation once, in the order of the answer."""
        return tuple(dict.fromkeys(citation for one in self.sentences for citation in one.citations))


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """A passage that was considered for an answer."""

    source: str
    place: str
    similarity: float | None
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Whether a search brought enough to answer from, and what it brought."""

    is_enough: bool
    score: float
    looked_at: tuple[LookedAt, ...]

    @property
    def refusal(self) -> str:
        """The fixed refusal with what was looked at."""
        if not self.looked_at:
            return f"{REFUSAL} Nothing was found to look at."
        listed = "; ".join(dict.fromkeys(f"{one.source} {one.place}".strip() for one in self.looked_at))
        return f"{REFUSAL} Looked at: {listed}."


def weigh_evidence(result: SearchResult, *, threshold: float = EVIDENCE_THRESHOLD) -> Evidence:
    """Say whether a passage is near enough to the question in meaning and words to answer from it.

    Half is the cosine of question and passage, half the weight of the question's terms that the passage has;
    a passage without a vector counts by its terms alone, and by them above all where the embedder does not know
    the language.
    """
    language = language_of(" ".join(hit.chunk.text for hit in result.hits), "english")
    wanted = terms_of(result.trace.question, language)
    covers = _covers(wanted, [terms_of(hit.chunk.words, language) for hit in result.hits])
    share = _FOREIGN_SIMILARITY_SHARE if result.trace.is_foreign else _SIMILARITY_SHARE
    scores = [
        cover if hit.similarity is None else share * hit.similarity + (1 - share) * cover
        for hit, cover in zip(result.hits, covers, strict=True)
    ]
    best = max(scores, default=0.0)
    return Evidence(
        is_enough=bool(scores) and best >= threshold,
        score=best,
        looked_at=tuple(
            LookedAt(
                source=hit.chunk.source, place=hit.chunk.place, similarity=hit.similarity, score=hit.score
            )
            for hit in result.hits
        ),
    )


def _covers(wanted: Terms, passages: Sequence[Terms]) -> list[float]:
    """Return the share of the wanted terms each passage has; terms that few passages have weigh more."""
    holding = {term: sum(term in one.all for one in passages) for term in wanted.all}
    weights = {term: math.log(1 + (1 + len(passages)) / (1 + count)) for term, count in holding.items()}
    total = sum(weights.values())
    if not total:
        return [0.0] * len(passages)
    return [
        sum(weight for term, weight in weights.items() if term in one.all or is_near_term(term, one.content))
        / total
        for one in passages
    ]


def ground_answer(
    answer: str, passages: Sequence[StoredChunk], *, threshold: float = SUPPORT_THRESHOLD
) -> GroundedAnswer:
    """Align each sentence of an answer with the passages; markers such as [2] are read as claims."""
    aligner = Aligner([passage.text for passage in passages])
    sentences = tuple(
        _support(answer, start, end, aligner, passages, threshold) for start, end in _sentences(answer)
    )
    claims = [sentence for sentence in sentences if sentence.is_claim]
    share = sum(sentence.is_supported for sentence in claims) / len(claims) if claims else 1.0
    return GroundedAnswer(text=answer, sentences=sentences, supported_share=share)


def check_quote(quote: str, claimed_passage: int, passages: Sequence[StoredChunk]) -> Citation:
    """Give the verdict on a quote that is said to stand in a passage, counted from 1; 0 names none."""
    order = sorted(range(len(passages)), key=lambda place: (place + 1 != claimed_passage, place))
    found = [
        (place, where) for place in order if (where := find_quote(quote, passages[place].text)) is not None
    ]
    if not found:
        return Citation(
            verdict="absent", quote=quote, passage=0, claimed_passage=claimed_passage, document_id="", source="",
            place="", start=0, end=0,
        )  # fmt: skip
    place, where = min(found, key=lambda one: (one[0] + 1 != claimed_passage, not one[1].is_exact, one[0]))
    is_claimed = claimed_passage in (0, place + 1)
    verdict: Verdict = "wrong_source" if not is_claimed else "verified" if where.is_exact else "near"
    return _citation(passages[place], place, where.start, where.end, verdict, claimed_passage)


def _sentences(answer: str) -> list[tuple[int, int]]:
    """Sentences and list items of an answer; markers after a full stop belong to the sentence before it."""
    spans: list[tuple[int, int]] = []
    for start, end in _lines(answer):
        markers = MARKERS.match(answer, start)
        if markers is not None and spans:
            spans[-1] = (spans[-1][0], markers.end())
            start = markers.end()
        if answer[start:end].strip():
            start += len(answer[start:end]) - len(answer[start:end].lstrip())
            spans.append((start, end))
    return spans


def _lines(answer: str) -> Iterator[tuple[int, int]]:
    """Yield sentences, cut before each list item; a number that counts items is no sentence of its own."""
    begin: int | None = None
    for start, end in sentence_spans(answer):
        cuts = [start, *(match.end() for match in _BEFORE_ITEM.finditer(answer, start, end)), end]
        for here, after in pairwise(cuts):
            here = here if begin is None else begin
            begin = here if _ITEM_MARK.fullmatch(answer[here:after].strip()) else None
            if begin is None:
                yield here, len(answer[:after].rstrip())
    if begin is not None:
        yield begin, len(answer.rstrip())


def _support(
    answer: str,
    start: int,
    end: int,
    aligner: Aligner,
    passages: Sequence[StoredChunk],
    threshold: float,
) -> SentenceSupport:
    text = answer[start:end]
    claimed = [number for markers in MARKERS.findall(text) for number in _claimed(markers)]
    plain = MARKERS.sub("", _LEADING_ITEM_MARK.sub("", text))
    terms = aligner.terms(plain)
    alignment = aligner.align(plain, preferred=claimed[0] - 1 if claimed else None)
    missing = tuple(dict.fromkeys(word for part in alignment.parts for word in _unsaid(part, aligner)))
    has_other_polarity = any(part.contradiction.has_other_polarity for part in alignment.parts)
    is_supported = (
        terms.is_claim and alignment.coverage >= threshold and not missing and not has_other_polarity
    )
    return SentenceSupport(
        text=text,
        start=start,
        end=end,
        is_claim=terms.is_claim,
        is_supported=is_supported,
        coverage=alignment.coverage,
        missing=missing,
        has_other_polarity=has_other_polarity,
        citations=_citations(alignment, claimed, passages) if is_supported else _unsupported(text, claimed),
    )


def _claimed(markers: str) -> Iterator[int]:
    for first, last in _RANGE.findall(markers):
        end = int(last or first)
        yield from range(int(first), min(end, int(first) + _MOST_IN_RANGE) + 1)


def _unsaid(part: AlignedPart, aligner: Aligner) -> Iterator[str]:
    """Yield what a source must say and does not: numbers of its own, names of its passage, nothing else instead."""
    terms = part.terms
    passage = aligner.passages[part.source.passage]
    of_names = {match.group(1) for match in _NUMBERED_NAME.finditer(part.text) if match.group() in passage}
    yield from sorted(terms.numbers - part.source.terms.numbers - of_names)
    words = aligner.words_of(part.source.passage)
    names = [name for name in sorted(terms.names - words) if not is_near_term(name, words)]
    yield from names
    yield from (name for name in _DOTTED_NAME.findall(part.text) if name not in passage)
    yield from (word for word in part.contradiction.words if stemmed(word, aligner.language) not in names)


def _citations(
    alignment: Alignment, claimed: Sequence[int], passages: Sequence[StoredChunk]
) -> tuple[Citation, ...]:
    cited: list[Citation] = []
    for source in alignment.sources:
        number = source.passage + 1
        is_named = not claimed or number in claimed
        cited.append(
            _citation(
                passages[source.passage],
                source.passage,
                source.start,
                source.end,
                "verified" if is_named else "wrong_source",
                0 if not claimed else number if is_named else claimed[0],
            )
        )
    return tuple(cited)


def _unsupported(text: str, claimed: Sequence[int]) -> tuple[Citation, ...]:
    """A marker on a sentence that nothing supports points to nothing."""
    return tuple(
        Citation(
            verdict="absent", quote=text, passage=0, claimed_passage=number, document_id="", source="", place="",
            start=0, end=0,
        )
        for number in dict.fromkeys(claimed)
    )  # fmt: skip


def _citation(
    chunk: StoredChunk, place: int, start: int, end: int, verdict: Verdict, claimed: int
) -> Citation:
    return Citation(
        verdict=verdict,
        quote=chunk.text[start:end],
        passage=place + 1,
        claimed_passage=claimed,
        document_id=chunk.document_id,
        source=chunk.source,
        place=chunk.place_of(chunk.start + start, chunk.start + end),
        start=chunk.start + start,
        end=chunk.start + end,
    )
