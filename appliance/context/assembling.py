"""Makes the answer a user gets of what was found, what the model wrote and what code could verify of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from appliance.context.answers import AnswerKind, CitationMode, Coverage, DocumentAnswer
from appliance.context.citing import CitedText
from appliance.context.quoting import SentenceQuote
from appliance.context.receipt import ContextReceipt, with_usage
from appliance.context.rewriting import RewrittenBy
from appliance.core.results import GenerateResult, GenerateSuccess
from appliance.core.usage import Timings, Usage
from appliance.retrieval.grounding import REFUSAL, Evidence
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.trace import SearchResult

_NOTHING = CitedText(text="", sentences=(), citations=(), supported_share=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was found for a question, whether that is enough, the passages to read, best first, and quotes of them."""

    found: SearchResult
    evidence: Evidence
    chunks: tuple[StoredChunk, ...]
    quotes: tuple[tuple[StoredChunk, SentenceQuote], ...]
    coverage: Coverage
    rewritten_by: RewrittenBy = ""


def refused(
    question: str, mode: CitationMode, looked: Looked, *, receipt: ContextReceipt | None = None
) -> DocumentAnswer:
    """The fixed refusal, with what was looked at; the model was not asked."""
    return _answer("refused", question, mode, looked, receipt, None, "", _NOTHING)


def answered(
    question: str,
    mode: CitationMode,
    looked: Looked,
    receipt: ContextReceipt,
    result: GenerateResult,
    prose: str,
    cited: CitedText,
) -> DocumentAnswer:
    """The model's words where something of them is supported, else the best quote, else the refusal."""
    used = with_usage(receipt, result.usage)
    first = next((one for one in cited.citations if one.is_shown_as_true), None)
    if first is None:
        return _answer("refused", question, mode, looked, used, result, prose, cited)
    if not any(sentence.is_supported for sentence in cited.sentences):
        quote = f"“{' '.join(first.citation.quote.split())}” [{first.number}]"
        cited = replace(cited, text=quote)
        return _answer("quoted_only", question, mode, looked, used, result, prose, cited)
    return _answer("answered", question, mode, looked, used, result, prose, cited)


def _answer(
    kind: AnswerKind,
    question: str,
    mode: CitationMode,
    looked: Looked,
    receipt: ContextReceipt | None,
    result: GenerateResult | None,
    prose: str,
    cited: CitedText,
) -> DocumentAnswer:
    return DocumentAnswer(
        kind=kind,
        question=question,
        text=REFUSAL if kind == "refused" else cited.text,
        model_text=prose,
        mode=mode,
        sentences=cited.sentences,
        citations=() if kind == "refused" else cited.citations,
        supported_share=cited.supported_share,
        coverage=looked.coverage,
        evidence=looked.evidence,
        search=looked.found.trace,
        rewritten_by=looked.rewritten_by,
        receipt=receipt,
        usage=Usage() if result is None else result.usage,
        timings=Timings() if result is None else result.timings,
        model=result.model if isinstance(result, GenerateSuccess) else None,
        failure=None if result is None or isinstance(result, GenerateSuccess) else result.failure,
        notes=_notes(looked, result),
    )


def _notes(looked: Looked, result: GenerateResult | None) -> tuple[str, ...]:
    notes = list(looked.found.trace.notes)
    coverage = looked.coverage
    if result is not None and coverage.needs_all and not coverage.is_whole:
        notes.append(
            f"the question is about all of the documents and the model saw a part: {coverage}; --all reads all"
        )
    if isinstance(result, GenerateSuccess) and result.finish_reason == "length":
        notes.append(f"the answer was cut after {result.usage.output_tokens} tokens")
    return tuple(notes)
