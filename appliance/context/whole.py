"""Reads every passage, part by part, and says how many were read: map and reduce, or one answer refined.

For summaries of long documents and for questions that the best passages cannot answer, such as counting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from appliance.context.answers import AnswerSentence, Coverage, NumberedCitation
from appliance.context.budget import ContextBudget
from appliance.context.builder import BuiltContext, ContextBuilder
from appliance.context.citing import CitationList, CitedText, cite
from appliance.context.counting import TokenCounter
from appliance.context.delimiting import delimited
from appliance.context.parts import Passage
from appliance.context.question import DocumentQuestion, check_collections, every_chunk, passage_of
from appliance.context.wording import (
    JOIN_PARTS,
    PROMPT_ID,
    PROMPT_VERSION,
    READ_PART,
    REFINE_PART,
    system_with,
)
from appliance.core.errors import Failure, error_of
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure
from appliance.core.usage import Usage
from appliance.gateway import Gateway
from appliance.retrieval.grounding import REFUSAL
from appliance.retrieval.library import Library
from appliance.retrieval.records import StoredChunk
from appliance.telemetry import AttributeValue, Telemetry

WholeMethod = Literal["map_reduce", "refine"]
OnRead = Callable[[int, int], None]
"""Takes the passages read so far and all of them."""

_MOST_CITED_PASSAGES = 2_000
_NOTHING = frozenset(("", "nothing", "none", "no", "nichts"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartNote:
    """What one part said: passages `first` to `last`, counted from 1; an empty text is nothing of use."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeAnswer:
    """An answer from everything that could be read. `failures` say which passages were not, and why."""

    text: str
    method: WholeMethod
    coverage: Coverage
    notes: tuple[PartNote, ...]
    model_calls: int
    sentences: tuple[AnswerSentence, ...]
    citations: tuple[NumberedCitation, ...]
    supported_share: float
    failures: tuple[str, ...]
    usage: Usage

    def to_json(self) -> dict[str, object]:
        """Return the answer as an object for JSON."""
        return {**asdict(self), "coverage": {**asdict(self.coverage), "text": str(self.coverage)}}


@dataclass(slots=True)
class _Reading:
    """The state of one reading."""

    asked: DocumentQuestion
    builder: ContextBuilder
    notes: list[PartNote] = field(default_factory=list)
    read_passages: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    failures: list[str] = field(default_factory=list)
    last_failure: Failure | None = None


class WholeReader:
    """Reads all passages of a question's documents through one gateway."""

    def __init__(
        self,
        gateway: Gateway,
        library: Library,
        counter: TokenCounter,
        *,
        margin_tokens: int = 0,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._gateway = gateway
        self._library = library
        self._counter = counter
        self._margin_tokens = margin_tokens

    async def read(
        self,
        asked: DocumentQuestion,
        method: WholeMethod = "map_reduce",
        *,
        on_progress: OnRead | None = None,
    ) -> WholeAnswer:
        """Answer from every passage. A part that fails is named and leaves the coverage below the whole.

        Raises:
            InvalidRequestError: a collection does not exist.
            ContextOverflowError: the question alone does not fit.
            ApplianceError: no part could be read.
        """
        facts: dict[str, AttributeValue] = {"appliance.method": method}
        with (
            self._telemetry.span("documents", facts, owner=asked.owner) as span,
            self._telemetry.ambient(span),
        ):
            return await self._read(asked, method, on_progress)

    async def _read(
        self, asked: DocumentQuestion, method: WholeMethod, on_progress: OnRead | None
    ) -> WholeAnswer:
        check_collections(self._library, asked)
        chunks = await asyncio.to_thread(every_chunk, self._library, asked)
        offered = await self._gateway.capabilities(asked.model)
        budget = ContextBudget(
            context_window=offered.context_window,
            reserved_tokens=asked.answer_tokens,
            margin_tokens=self._margin_tokens,
        )
        reading = _Reading(asked, ContextBuilder(self._counter, budget))
        text = await self._read_parts(reading, chunks, budget, method, on_progress)
        if reading.last_failure is not None and not reading.read_passages:
            raise error_of(reading.last_failure)
        if method == "map_reduce":
            text = await self._joined(reading)
        cited = await asyncio.to_thread(self._cited, text, chunks, asked.owner)
        return WholeAnswer(
            text=cited.text,
            method=method,
            coverage=Coverage(read_passages=reading.read_passages, all_passages=len(chunks), needs_all=True),
            notes=tuple(reading.notes),
            model_calls=reading.calls,
            sentences=cited.sentences,
            citations=cited.citations,
            supported_share=cited.supported_share,
            failures=tuple(reading.failures),
            usage=reading.usage,
        )

    async def _read_parts(
        self,
        reading: _Reading,
        chunks: Sequence[StoredChunk],
        budget: ContextBudget,
        method: WholeMethod,
        on_progress: OnRead | None,
    ) -> str:
        parts = await self._parts(reading.asked, chunks, budget, method)
        answer = ""
        position = 0
        for number, part in enumerate(parts, start=1):
            first, position = position + 1, position + len(part)
            request = self._part_request(reading.asked, method, number, len(parts), answer)
            built = await reading.builder.build(
                request, passages=[passage_of(chunk) for chunk in part], keeps_order=True
            )
            text = await self._ask(reading, built, f"passages {first} to {position}")
            if text is not None:
                reading.read_passages += _whole_passages(built)
                self._name_what_was_cut(reading, built)
                reading.notes.append(PartNote(first=first, last=position, text=_useful(text)))
                answer = text or answer
            if on_progress is not None:
                on_progress(position, len(chunks))
        return answer

    async def _parts(
        self,
        asked: DocumentQuestion,
        chunks: Sequence[StoredChunk],
        budget: ContextBudget,
        method: WholeMethod,
    ) -> list[list[StoredChunk]]:
        """Group passages in order so that each group fits beside the question and the answer so far."""
        bare = self._part_request(asked, method, len(chunks), len(chunks), "")
        room = budget.available_tokens - await self._counter.count_request(bare)
        # The frame of the documents, and in refining the answer so far, take their share.
        room -= 16 + (asked.answer_tokens if method == "refine" else 0)
        parts: list[list[StoredChunk]] = []
        used_tokens = 0
        for chunk in chunks:
            # The widest number is counted, so that the place in its part does not matter.
            rendered = passage_of(chunk).rendered(len(chunks))
            tokens = await self._counter.count_text(f"{rendered}\n", bare)
            if not parts or used_tokens + tokens > room:
                parts.append([])
                used_tokens = 0
            parts[-1].append(chunk)
            used_tokens += tokens
        return parts

    def _part_request(
        self, asked: DocumentQuestion, method: WholeMethod, number: int, count: int, answer: str
    ) -> GenerateRequest:
        if method == "refine" and answer:
            words = f"{delimited('notes', answer)}\n\n{REFINE_PART.format(question=asked.question)}"
        else:
            words = READ_PART.format(number=number, count=count, question=asked.question)
        return _request(asked, words)

    async def _joined(self, reading: _Reading) -> str:
        """Reduce the notes until one is left; notes that do not fit together are joined in groups first."""
        notes = [note.text for note in reading.notes if note.text]
        words = JOIN_PARTS.format(question=reading.asked.question)
        while len(notes) > 1:
            joined: list[str] = []
            while notes:
                passages = [Passage(text=note, source=f"part {place}") for place, note in enumerate(notes, 1)]
                tried = await reading.builder.build(
                    _request(reading.asked, words), passages=passages, keeps_order=True
                )
                # Two at least, so that every round leaves half as many.
                taken = max(2, _leading_whole(tried))
                joined.append(await self._join_group(reading, words, passages[:taken]))
                notes = notes[taken:]
            notes = joined
        return notes[0] if notes else ""

    async def _join_group(self, reading: _Reading, words: str, notes: Sequence[Passage]) -> str:
        if len(notes) == 1:
            return notes[0].text
        built = await reading.builder.build(_request(reading.asked, words), passages=notes, keeps_order=True)
        self._name_what_was_cut(reading, built)
        text = await self._ask(reading, built, "joining the notes")
        return " ".join(note.text for note in notes) if text is None else text

    async def _ask(self, reading: _Reading, built: BuiltContext, what: str) -> str | None:
        """Return what the model wrote, or None when it failed, which is noted."""
        result = await self._gateway.generate(built.request)
        reading.calls += 1
        reading.usage = _sum(reading.usage, result.usage)
        if isinstance(result, GenerateFailure):
            reading.last_failure = result.failure
            reading.failures.append(f"{what}: {result.failure.message}")
            return None
        return result.message.text.strip()

    def _name_what_was_cut(self, reading: _Reading, built: BuiltContext) -> None:
        for entry in built.receipt.section("documents").entries:
            if entry.outcome != "kept":
                reading.failures.append(f"{entry.label}: {entry.cut_tokens} tokens did not fit")

    def _cited(self, text: str, chunks: Sequence[StoredChunk], owner: str) -> CitedText:
        if not _useful(text):
            return CitedText(text=REFUSAL, sentences=(), citations=(), supported_share=0.0)
        texts: dict[str, str | None] = {}

        def document_text(document_id: str) -> str | None:
            if document_id not in texts:
                document = self._library.store.parsed(owner, document_id)
                texts[document_id] = None if document is None else document.text
            return texts[document_id]

        read = chunks[:_MOST_CITED_PASSAGES]
        return cite(text, read, CitationList(read, document_text))


def _request(asked: DocumentQuestion, words: str) -> GenerateRequest:
    return GenerateRequest(
        conversation=Conversation.of(SystemMessage(text=system_with(asked.system)), UserMessage(text=words)),
        model=asked.model,
        sampling=replace(asked.sampling, max_tokens=asked.answer_tokens),
        deadline=asked.deadline,
        owner=asked.owner,
        prompt_id=PROMPT_ID,
        prompt_version=PROMPT_VERSION,
    )


def _whole_passages(built: BuiltContext) -> int:
    return sum(entry.outcome == "kept" for entry in built.receipt.section("documents").entries)


def _leading_whole(built: BuiltContext) -> int:
    """How many notes from the first on are kept whole in a row."""
    entries = built.receipt.section("documents").entries
    return next((place for place, entry in enumerate(entries) if entry.outcome != "kept"), len(entries))


def _useful(text: str) -> str:
    return "" if text.strip().rstrip(".!").lower() in _NOTHING else text.strip()


def _sum(first: Usage, second: Usage) -> Usage:
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        cached_tokens=first.cached_tokens + second.cached_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
    )
