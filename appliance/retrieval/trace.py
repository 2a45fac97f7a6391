"""What a search did: where each passage came from, with which scores, and why it was cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.retrieval.records import StoredChunk

SearchMode = Literal["hybrid", "dense", "text"]
Fusion = Literal["weighted", "rrf"]
CutCause = Literal["limit", "per_document", "below_min_score", "document_gone", "diversity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateTrace:
    """One candidate. Ranks count from 1; a rank of 0 and a score of `None` mean it was not in that list."""

    chunk_id: int
    document_id: str
    source: str
    place: str
    dense_rank: int
    dense_score: float | None
    text_rank: int
    text_score: float | None
    parts_score: float | None
    fused_score: float
    reranker_score: float | None
    final_rank: int
    cut: CutCause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTrace:
    """One search as it happened. `queries` are what was searched for, the question first.

    `is_foreign` tells that the embedder was not made for the language of what was found.
    """

    mode: SearchMode
    fusion: Fusion
    dense_share: float
    question: str
    queries: tuple[str, ...]
    candidates: tuple[CandidateTrace, ...]
    missing_words: int
    missing_vectors: int
    searched_chunks: int
    duration_s: float
    notes: tuple[str, ...]
    is_foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A passage that was found. `before` and `after` are its neighbours in the document when asked for.

    `score` orders hits of one search; `similarity` is the cosine of question and passage, comparable across
    searches, and `None` when the passage has no vector yet.
    """

    chunk: StoredChunk
    score: float
    similarity: float | None
    before: tuple[StoredChunk, ...] = ()
    after: tuple[StoredChunk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Hits, best first, and how they came about."""

    hits: tuple[SearchHit, ...]
    trace: SearchTrace
