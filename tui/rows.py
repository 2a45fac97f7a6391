"""The values screens show: what the appliance knows, as rows and views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Fit = Literal["yes", "tight", "no", "likely", "unlikely", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting with where its value came from."""

    name: str
    value: str
    origin: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model of the catalogue. `is_loaded` says that a process of this user holds it now."""

    name: str
    size_bytes: int
    parameters: int
    quantisation: str
    context_window: int
    licence: str
    is_on_disk: bool
    is_loaded: bool
    can_chat: bool
    fit: Fit
    resident_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkProgress:
    """How far long work is; `total` of 0 means not known. `unit` is what is counted."""

    what: str
    done: int = 0
    total: int = 0
    unit: Literal["bytes", "files", "vectors", "steps"] = "bytes"
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLine:
    """One outcome of long work, for people."""

    text: str
    is_bad: bool = False


WorkEvent = WorkProgress | WorkLine


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """One document of the library; `problem` says why it has no text, or what a reader must know."""

    document_id: str
    collection: str
    name: str
    source: str
    is_ready: bool
    page_count: int
    chunk_count: int
    missing_vectors: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageRow:
    """A passage that was found, with its scores and ranks; a rank of 0 means it was not in that list."""

    name: str
    place: str
    text: str
    score: float
    similarity: float | None
    dense_rank: int
    text_rank: int
    cut: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """The passages of one search, best first, those that were cut, and what the search says of itself."""

    passages: tuple[PassageRow, ...]
    cut: tuple[PassageRow, ...]
    searched_chunks: int
    duration_s: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A citation: its quote is the characters `start` to `end` of the document, unless no document has it."""

    number: int
    name: str
    place: str
    quote: str
    verdict: str
    is_verified: bool
    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedAnswer:
    """What an answer from documents stands on; `notes` say what is not supported and how much was read."""

    sources: tuple[SourceRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptView:
    """How an answer was made: the receipt of its prompt and the very messages that were sent."""

    receipt_json: str = ""
    messages: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    model: str = ""
    sampling: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What a forgetting says of itself; clean means that nothing was found that should be gone."""

    receipt: str
    is_clean: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSource:
    """A document or a collection that a question can name with @."""

    name: str
    kind: Literal["document", "collection"]
    document_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One request as the log lists it; `started_at_s` is wall-clock time."""

    trace_id: str
    started_at_s: float
    name: str
    model: str
    duration_s: float
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow:
    """One timed node of a request. `strokes` draw its place in the tree; times are since the request began."""

    strokes: str
    name: str
    start_s: float
    duration_s: float
    status: str
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFigure:
    """The newest figure of a measurement that goes on."""

    series: str
    figure: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchMetric:
    """One measured quantity with every sample."""

    name: str
    unit: str
    samples: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRecord:
    """The result of one test; `doubts` say why its figures may not be trusted."""

    test: str
    configuration: str
    metrics: tuple[BenchMetric, ...]
    doubts: tuple[str, ...]


BenchEvent = WorkEvent | BenchFigure | BenchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """A run that is kept."""

    name: str
    suites: str
    models: str
    records: int
    doubts: tuple[str, ...]
