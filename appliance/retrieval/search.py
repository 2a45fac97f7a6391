"""Find the passages that answer a question: words and meaning, fused, thinned and explained."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from appliance.core.errors import InvalidRequestError
from appliance.retrieval.index import RetrievalIndex
from appliance.retrieval.lance import Scope, ScoredId
from appliance.retrieval.languages import script_language
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.scoring import (
    diverse_order,
    parts_scores,
    reciprocal_ranks,
    share_of_best,
    with_companions,
)
from appliance.retrieval.trace import (
    CandidateTrace,
    CutCause,
    Fusion,
    SearchHit,
    SearchMode,
    SearchResult,
    SearchTrace,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Chosen on the training queries of SciFact and on XQuAD: the share of cosine similarity in the fused score, of
# word parts in its text part, and how much the best other passage of the same document weighs.
DENSE_SHARE = 0.7
# The same where passages are in a language that the embedder was not made for, chosen on German and Chinese.
FOREIGN_DENSE_SHARE = 0.2
PARTS_SHARE = 0.5
COMPANION_SHARE = 0.2
CANDIDATES = 100
MAX_LIMIT = 1_000
_MAX_QUERY_CHARACTERS = 20_000
_LANGUAGE_HITS = 20


class Reranker(Protocol):
    """Scores passages against a question, more slowly and more exactly than a search can."""

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score for each passage; higher is better."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What to look for, where, and how.

    Args:
        per_document: most hits of one document; 0 is no bound.
        neighbours: chunks before and after each hit to bring along.
        diversity: 0 orders by score alone; towards 1, passages unlike those above them go first.
        dense_share: share of meaning against words in the fused score; `None` lets it follow the language.
        min_score: fused scores below it are cut.

    Raises:
        InvalidRequestError: a value is outside its range.
    """

    question: str
    owner: str
    collections: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    mode: SearchMode = "hybrid"
    fusion: Fusion = "weighted"
    limit: int = 10
    candidates: int = CANDIDATES
    dense_share: float | None = None
    per_document: int = 0
    neighbours: int = 0
    diversity: float = 0.0
    min_score: float = 0.0

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise InvalidRequestError("there is nothing to search for", hint="give a question or some words")
        if len(self.question) > _MAX_QUERY_CHARACTERS:
            raise InvalidRequestError(
                f"the question has {len(self.question)} characters; {_MAX_QUERY_CHARACTERS} is the most",
                hint="ask a shorter question; nothing is cut in silence",
            )
        _check("limit", self.limit, 1, MAX_LIMIT)
        _check("candidates", self.candidates, 1, MAX_LIMIT)
        _check("per_document", self.per_document, 0, MAX_LIMIT)
        _check("neighbours", self.neighbours, 0, 20)
        if self.dense_share is not None:
            _check("dense_share", self.dense_share, 0, 1)
        _check("diversity", self.diversity, 0, 1)

    @property
    def is_weighted(self) -> bool:
        """Whether scores of both kinds are added up."""
        return self.mode == "hybrid" and self.fusion == "weighted"


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidRequestError(f"{name} is {value}; it must be between {low:g} and {high:g}")


@dataclass(slots=True)
class _Candidate:
    """A chunk on its way through the search."""

    chunk: StoredChunk
    dense: float | None = None
    dense_rank: int = 0
    text: float | None = None
    text_rank: int = 0
    parts: float | None = None
    fused: float = 0.0
    reranked: float | None = None
    cut: CutCause | None = None

    @property
    def order_score(self) -> float:
        return self.fused if self.reranked is None else self.reranked


@dataclass(slots=True)
class _Lists:
    """The raw lists of one wording."""

    wording: str
    vector: list[float] = field(default_factory=list)
    dense: list[ScoredId] = field(default_factory=list)
    text: list[ScoredId] = field(default_factory=list)
    text_vectors: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    stored: dict[int, StoredChunk] = field(default_factory=dict)


class Searcher:
    """Searches one index.

    Args:
        languages: those the embedder was made for; none stands for many.
    """

    def __init__(
        self, index: RetrievalIndex, *, reranker: Reranker | None = None, languages: Sequence[str] = ()
    ) -> None:
        self._index = index
        self._languages = frozenset(language.lower() for language in languages)
        self._reranker = reranker
        # Words are searched while the question is embedded and compared by meaning.
        self._beside = ThreadPoolExecutor(max_workers=4, thread_name_prefix="word-search")

    def close(self) -> None:
        """End the threads that search beside the caller's."""
        self._beside.shutdown()

    def search(self, request: SearchRequest, *, wordings: Sequence[str] = ()) -> SearchResult:
        """Search, for other wordings of the question as well.

        Raises:
            ConfigError: meaning is asked for and the index holds vectors of another embedder.
            StorageError: the index cannot be read.
        """
        started_s = perf_counter()
        notes: list[str] = []
        queries = _queries(request.question, wordings)
        scope = Scope(owner=request.owner, collections=request.collections, document_ids=request.document_ids)
        lists = [self._lists(query, request, scope, notes) for query in queries]
        candidates, gone = _gather(lists)
        if request.mode == "text" or request.is_weighted:
            _compare_by_parts(candidates, queries)
        _compare_by_meaning(candidates, lists)
        foreign = self._foreign_language(request, lists)
        dense_share = _dense_share(request, foreign, notes)
        _fuse(candidates, request, dense_share)
        ranked = self._order(candidates, request, scope)
        kept = _thin(ranked, request)
        hits = tuple(self._hit(candidate, request) for candidate in kept)
        counts = self._index.store.counts(request.owner, request.collections)
        return SearchResult(
            hits=hits,
            trace=SearchTrace(
                mode=request.mode,
                fusion=request.fusion,
                dense_share=dense_share,
                question=request.question,
                queries=tuple(queries),
                candidates=tuple(_traced(ranked, kept)),
                missing_words=counts.missing_words,
                missing_vectors=counts.missing_vectors,
                searched_chunks=counts.chunks,
                duration_s=perf_counter() - started_s,
                is_foreign=bool(foreign),
                notes=(*notes, *_notes(counts.missing_vectors, counts.chunks, counts.missing_words, gone)),
            ),
        )

    def _lists(self, query: str, request: SearchRequest, scope: Scope, notes: list[str]) -> _Lists:
        lists = _Lists(query)
        words: Future[None] | None = None
        if request.mode != "dense":
            words = self._beside.submit(self._search_words, lists, request, scope)
        if request.mode != "text":
            lists.vector = self._embedded(query, notes)
            lists.dense = self._index.vectors.search(lists.vector, scope, request.candidates)
            # What is found is read from SQLite while the other list is still being searched.
            lists.stored.update(self._stored(lists.dense, request))
        if words is not None:
            words.result()
        return lists

    def _search_words(self, lists: _Lists, request: SearchRequest, scope: Scope) -> None:
        """Search the words, and bring the vectors of what they found, to compare it by meaning too."""
        lists.text = self._index.words.search(lists.wording, scope, request.candidates)
        lists.stored.update(self._stored(lists.text, request))
        if request.is_weighted:
            ids = [scored.chunk_id for scored in lists.text]
            lists.text_vectors = self._index.vectors.vectors_of(ids, scope)

    def _stored(self, found: Sequence[ScoredId], request: SearchRequest) -> dict[int, StoredChunk]:
        return self._index.store.chunks(request.owner, [scored.chunk_id for scored in found])

    def _embedded(self, query: str, notes: list[str]) -> list[float]:
        """Embed a query; one that is too long for the embedder is cut, and that is said."""
        embedder = self._index.embedder
        words = query.split()
        while not embedder.fits_query(" ".join(words)) and len(words) > 1:
            words = words[: max(1, len(words) * 9 // 10)]
        fitting = query if len(words) == len(query.split()) else " ".join(words)
        if fitting != query:
            notes.append(f"the first {len(words)} of {len(query.split())} words were compared by meaning")
        return embedder.embed_query(fitting)

    def _foreign_language(self, request: SearchRequest, lists: Sequence[_Lists]) -> str:
        """Name the language of what was found if the embedder was not made for it."""
        found = [scored.language for one in lists for scored in one.text[:_LANGUAGE_HITS]]
        language = script_language(request.question) or max(found, key=found.count, default="")
        return language if self._languages and language not in self._languages else ""

    def _order(self, candidates: list[_Candidate], request: SearchRequest, scope: Scope) -> list[_Candidate]:
        ranked = sorted(candidates, key=lambda candidate: (-candidate.fused, candidate.chunk.chunk_id))
        if self._reranker is not None and ranked:
            head = ranked[: max(request.limit * 3, 20)]
            scores = self._reranker.score(request.question, [one.chunk.embedded_text for one in head])
            for candidate, score in zip(head, scores, strict=True):
                candidate.reranked = score
            head.sort(key=lambda candidate: -candidate.order_score)
            ranked = [*head, *ranked[len(head) :]]
        if request.diversity > 0 and ranked:
            ranked = self._diversified(ranked, request, scope)
        return ranked

    def _diversified(
        self, ranked: list[_Candidate], request: SearchRequest, scope: Scope
    ) -> list[_Candidate]:
        by_id = {candidate.chunk.chunk_id: candidate for candidate in ranked}
        # Only so many take part as could be shown, or a distant passage would win by being unlike the others.
        pool = [candidate.chunk.chunk_id for candidate in ranked[: max(request.limit * 3, 20)]]
        order = diverse_order(
            pool,
            {chunk_id: by_id[chunk_id].fused for chunk_id in pool},
            self._index.vectors.vectors_of(pool, scope),
            relevance_share=1.0 - request.diversity,
            limit=request.limit,
        )
        for chunk_id in set(pool[: request.limit]) - set(order[: request.limit]):
            by_id[chunk_id].cut = "diversity"
        return [*(by_id[chunk_id] for chunk_id in order), *ranked[len(pool) :]]

    def _hit(self, candidate: _Candidate, request: SearchRequest) -> SearchHit:
        chunk = candidate.chunk
        hit = SearchHit(chunk=chunk, score=candidate.order_score, similarity=candidate.dense)
        if not request.neighbours:
            return hit
        around = self._index.store.chunks_of(
            request.owner,
            chunk.document_id,
            chunk.ordinal - request.neighbours,
            chunk.ordinal + request.neighbours,
        )
        return replace(
            hit,
            before=tuple(other for other in around if other.ordinal < chunk.ordinal),
            after=tuple(other for other in around if other.ordinal > chunk.ordinal),
        )


def _gather(lists: Sequence[_Lists]) -> tuple[list[_Candidate], int]:
    """Bring the lists together over chunks that still exist; the best score of any wording counts."""
    ids = {scored.chunk_id for one in lists for scored in (*one.dense, *one.text)}
    stored = {chunk_id: chunk for one in lists for chunk_id, chunk in one.stored.items()}
    candidates = {chunk_id: _Candidate(chunk) for chunk_id, chunk in stored.items()}
    for one in lists:
        for rank, scored in enumerate(one.dense, start=1):
            if (candidate := candidates.get(scored.chunk_id)) is not None:
                candidate.dense = max(scored.score, candidate.dense or -1.0)
                candidate.dense_rank = min(rank, candidate.dense_rank or rank)
        for rank, scored in enumerate(one.text, start=1):
            if (candidate := candidates.get(scored.chunk_id)) is not None:
                candidate.text = max(scored.score, candidate.text or 0.0)
                candidate.text_rank = min(rank, candidate.text_rank or rank)
    return list(candidates.values()), len(ids) - len(stored)


def _dense_share(request: SearchRequest, foreign: str, notes: list[str]) -> float:
    """Return what meaning weighs: little where the embedder does not know the language."""
    if request.dense_share is not None:
        return request.dense_share
    if not foreign:
        return DENSE_SHARE
    if request.mode == "hybrid":
        notes.append(
            f"the embedder was not made for {foreign[0].upper()}{foreign[1:]}: "
            f"meaning weighs {FOREIGN_DENSE_SHARE:g} instead of {DENSE_SHARE:g}"
        )
    return FOREIGN_DENSE_SHARE


def _queries(question: str, wordings: Sequence[str]) -> list[str]:
    usable = (one.strip() for one in wordings if len(one) <= _MAX_QUERY_CHARACTERS)
    return list(dict.fromkeys([question, *(one for one in usable if one)]))


def _compare_by_parts(candidates: Sequence[_Candidate], queries: Sequence[str]) -> None:
    texts = [candidate.chunk.words for candidate in candidates]
    by_query = [parts_scores(query, texts) for query in queries]
    for candidate, scores in zip(candidates, zip(*by_query, strict=True), strict=True):
        candidate.parts = max(scores)


def _compare_by_meaning(candidates: Sequence[_Candidate], lists: Sequence[_Lists]) -> None:
    """Give what was found by its words alone its similarity too; the best wording counts."""
    vectors = {key: vector for one in lists for key, vector in one.text_vectors.items()}
    wanted = [np.asarray(one.vector, dtype=np.float32) for one in lists]
    for candidate in candidates:
        stored = vectors.get(candidate.chunk.chunk_id)
        if candidate.dense is None and stored is not None:
            candidate.dense = max(float(stored @ vector) for vector in wanted)


def _fuse(candidates: list[_Candidate], request: SearchRequest, dense_share: float) -> None:
    match request.mode:
        case "dense":
            for candidate in candidates:
                candidate.fused = candidate.dense or 0.0
        case "text":
            _fuse_texts(candidates, dense_share=0.0)
        case "hybrid" if request.fusion == "rrf":
            _fuse_ranks(candidates, dense_share)
        case "hybrid":
            _fuse_texts(candidates, dense_share=dense_share)
            _weigh_companions(candidates)


def _fuse_texts(candidates: list[_Candidate], dense_share: float) -> None:
    """Weigh cosine similarity against words and parts of words, each as a share of the best."""
    words = share_of_best({place: one.text or 0.0 for place, one in enumerate(candidates)})
    parts = share_of_best({place: one.parts or 0.0 for place, one in enumerate(candidates)})
    # One that has no vector yet is taken to be as far in meaning as the farthest of the others.
    floor = min((one.dense for one in candidates if one.dense is not None), default=0.0)
    for place, candidate in enumerate(candidates):
        text = (1 - PARTS_SHARE) * words[place] + PARTS_SHARE * parts[place]
        dense = floor if candidate.dense is None else candidate.dense
        candidate.fused = dense_share * max(0.0, dense) + (1 - dense_share) * text


def _weigh_companions(candidates: Sequence[_Candidate]) -> None:
    by_id = {one.chunk.chunk_id: one for one in candidates}
    scores = {chunk_id: one.fused for chunk_id, one in by_id.items()}
    documents = {chunk_id: one.chunk.document_id for chunk_id, one in by_id.items()}
    for chunk_id, score in with_companions(scores, documents, COMPANION_SHARE).items():
        by_id[chunk_id].fused = score


def _fuse_ranks(candidates: list[_Candidate], alpha: float) -> None:
    dense = sorted((one for one in candidates if one.dense_rank), key=lambda one: one.dense_rank)
    text = sorted((one for one in candidates if one.text_rank), key=lambda one: one.text_rank)
    fused = reciprocal_ranks(
        [one.chunk.chunk_id for one in dense], [one.chunk.chunk_id for one in text], alpha
    )
    for candidate in candidates:
        candidate.fused = fused.get(candidate.chunk.chunk_id, 0.0)


def _thin(ranked: list[_Candidate], request: SearchRequest) -> list[_Candidate]:
    kept: list[_Candidate] = []
    of_document: dict[str, int] = {}
    for candidate in ranked:
        document_id = candidate.chunk.document_id
        if candidate.fused < request.min_score:
            candidate.cut = "below_min_score"
        elif request.per_document and of_document.get(document_id, 0) >= request.per_document:
            candidate.cut = "per_document"
        elif len(kept) >= request.limit:
            candidate.cut = candidate.cut or "limit"
        else:
            candidate.cut = None
            kept.append(candidate)
            of_document[document_id] = of_document.get(document_id, 0) + 1
    return kept


def _traced(ranked: Sequence[_Candidate], kept: Sequence[_Candidate]) -> list[CandidateTrace]:
    ranks = {candidate.chunk.chunk_id: rank for rank, candidate in enumerate(kept, start=1)}
    return [
        CandidateTrace(
            chunk_id=candidate.chunk.chunk_id,
            document_id=candidate.chunk.document_id,
            source=candidate.chunk.source,
            place=candidate.chunk.place,
            dense_rank=candidate.dense_rank,
            dense_score=candidate.dense,
            text_rank=candidate.text_rank,
            text_score=candidate.text,
            parts_score=candidate.parts,
            fused_score=candidate.fused,
            reranker_score=candidate.reranked,
            final_rank=ranks.get(candidate.chunk.chunk_id, 0),
            cut=candidate.cut,
        )
        for candidate in ranked
    ]


def _notes(missing_vectors: int, chunks: int, missing_words: int, gone: int) -> list[str]:
    notes: list[str] = []
    if missing_vectors:
        notes.append(
            f"{missing_vectors} of {chunks} passages have no vector yet and were found by their words only"
        )
    if missing_words:
        notes.append(f"{missing_words} of {chunks} passages are not in the full text yet")
    if gone:
        notes.append(f"{gone} passages of removed or replaced documents were left out")
    return notes
