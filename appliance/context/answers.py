"""An answer from documents as a value: its words, numbered citations that code verified, and what was read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

from appliance.context.receipt import ContextReceipt
from appliance.context.rewriting import RewrittenBy
from appliance.core.errors import Failure
from appliance.core.events import ModelIdentity
from appliance.core.usage import Timings, Usage
from appliance.retrieval.grounding import Citation, Evidence
from appliance.retrieval.trace import SearchTrace

CitationMode = Literal["quotes", "model", "after"]
"""How quotes come about. `quotes`: code chooses sentences and the model answers from them. `model`: the model
chooses under a grammar that lets it write nothing but words of the passages. `after`: the answer is streamed
and aligned with the documents afterwards."""
QuoteOrigin = Literal["model", "code"]
AnswerKind = Literal["answered", "quoted_only", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedCitation:
    """A citation with the number that the answer shows; `chosen_by` says who picked the place."""

    number: int
    chosen_by: QuoteOrigin
    citation: Citation

    @property
    def is_shown_as_true(self) -> bool:
        """Whether the quote stands in the document."""
        return self.citation.verdict != "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSentence:
    """A sentence of the model with the numbers of the citations it stands on; none means unverified."""

    text: str
    numbers: tuple[int, ...]
    coverage: float
    missing: tuple[str, ...]

    @property
    def is_supported(self) -> bool:
        """Whether code found it in the documents."""
        return bool(self.numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of what was asked about was read."""

    read_passages: int
    all_passages: int
    needs_all: bool

    @property
    def is_whole(self) -> bool:
        """Whether everything was read."""
        return self.read_passages >= self.all_passages

    def __str__(self) -> str:
        return f"read {self.read_passages} of {self.all_passages} passages"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentAnswer:
    """What a user gets.

    `text` is the answer with its citation numbers; `model_text` the model's own words. When nothing of those
    is supported, `kind` is `quoted_only` and the text is what the document says. `failure` is why the model
    did not answer; the quotes stand all the same. `rewritten_by` says who told a follow-up in full; what was
    searched for instead stands in `search`.
    """

    kind: AnswerKind
    question: str
    text: str
    model_text: str
    mode: CitationMode
    sentences: tuple[AnswerSentence, ...]
    citations: tuple[NumberedCitation, ...]
    supported_share: float
    coverage: Coverage
    evidence: Evidence
    search: SearchTrace
    receipt: ContextReceipt | None
    usage: Usage
    timings: Timings
    model: ModelIdentity | None
    failure: Failure | None
    notes: tuple[str, ...]
    rewritten_by: RewrittenBy = ""

    def to_json(self) -> dict[str, object]:
        """Return the answer as an object for JSON."""
        bare = replace(self, receipt=None)
        trace = self.search
        return {
            **asdict(bare),
            "receipt": None if self.receipt is None else self.receipt.to_json(),
            "coverage": {**asdict(self.coverage), "text": str(self.coverage)},
            "search": {
                "mode": trace.mode,
                "question": trace.question,
                "queries": trace.queries,
                "candidates": len(trace.candidates),
                "searched_passages": trace.searched_chunks,
                "missing_vectors": trace.missing_vectors,
                "duration_s": trace.duration_s,
                "notes": trace.notes,
                "hits": [asdict(one) for one in trace.candidates if one.final_rank],
            },
        }
