"""Takes the fields of a schema out of each document, and holds every value against the document's words.

A document is read in parts that fit the context window; each part is a request of its own with a receipt. Of
several parts the value with the best evidence is taken, and lists are joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from appliance.context.budget import ContextBudget
from appliance.context.builder import BuiltContext, ContextBuilder
from appliance.context.counting import RequestCounter
from appliance.context.question import passage_of
from appliance.core.errors import ApplianceError, Failure, InvalidRequestError
from appliance.core.requests import LOCAL_OWNER, Deadline, GenerateRequest, JsonSchemaFormat, SamplingParams
from appliance.core.results import GenerateFailure
from appliance.core.routing import RoutingNeeds
from appliance.core.usage import Usage
from appliance.gateway import Gateway
from appliance.jobs.columns import LONGEST_TEXT_CHARACTERS, Columns, columns_of
from appliance.jobs.evidence import FieldEvidence, evidence_of
from appliance.jobs.rows import ExtractedRow
from appliance.prompts import UserText, shipped_prompts
from appliance.retrieval.records import DocumentRecord, StoredChunk
from appliance.retrieval.store import DocumentStore
from appliance.structured.json_text import JsonValue

PROMPT_ID = "extract"
DEFAULT_ANSWER_TOKENS = 512
_FRAME_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractTask:
    """What to take out of each document. `instruction` is the user's own word on it."""

    output: JsonSchemaFormat
    model: str
    instruction: str = ""
    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    deadline: Deadline = field(default_factory=Deadline)
    owner: str = LOCAL_OWNER

    @property
    def answer_tokens(self) -> int:
        """What is reserved for the values of one part, and the longest they may become."""
        return self.sampling.max_tokens or DEFAULT_ANSWER_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBegun:
    """A part of a document is being read; all counts begin at 1."""

    document_id: str
    name: str
    document: int
    documents: int
    part: int
    parts: int
    kind: Literal["part_begun"] = "part_begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDone:
    """A document is done, well or not."""

    row: ExtractedRow
    document: int
    documents: int
    kind: Literal["row_done"] = "row_done"


ExtractEvent = PartBegun | RowDone


@dataclass(slots=True)
class _Draft:
    """What the parts of one document gave so far."""

    usage: Usage = field(default_factory=Usage)
    receipts: list[dict[str, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    found: dict[str, list[_Found]] = field(default_factory=dict)
    read_parts: int = 0
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A value that one part gave for a field."""

    value: JsonValue
    evidence: tuple[FieldEvidence, ...]

    @property
    def rank(self) -> tuple[bool, float]:
        """Values that are found wholly go before others; no value goes last."""
        counted = [one for one in self.evidence if one.verdict not in ("empty", "uncheckable")]
        share = sum(one.is_found for one in counted) / len(counted) if counted else 0.0
        return (any(one.verdict != "empty" for one in self.evidence), share)


class Extractor:
    """Runs extractions over the documents of one store through one gateway."""

    def __init__(self, gateway: Gateway, store: DocumentStore) -> None:
        self._gateway = gateway
        self._store = store
        self._counter = RequestCounter(gateway.count_tokens)

    async def check(self, task: ExtractTask) -> Columns:
        """Return the columns of a task, refused before any document is read when it cannot be done.

        Raises:
            SchemaRejectedError: the schema has no fields, or cannot be enforced.
            ContextOverflowError: schema and instruction alone do not fit.
            ApplianceError: the model cannot be used, or cannot write JSON under a schema.
        """
        columns = columns_of(task.output)
        offered = await self._gateway.capabilities(task.model)
        if "json_schema" not in offered.capabilities:
            raise InvalidRequestError(
                f"{task.model} cannot write JSON under a schema", hint="choose another model"
            )
        budget = await self._budget(task)
        await ContextBuilder(self._counter, budget).build(_request(task, columns))
        return columns

    async def run(
        self, task: ExtractTask, documents: Sequence[DocumentRecord]
    ) -> AsyncGenerator[ExtractEvent, None]:
        """Yield a row for each document, in order; one that fails is a row that says why.

        Raises:
            ApplianceError: as `check`.
        """
        columns = await self.check(task)
        for number, record in enumerate(documents, start=1):
            draft = _Draft()
            try:
                async for part, parts in self._read(task, columns, record, draft):
                    yield PartBegun(
                        document_id=record.document_id,
                        name=record.name,
                        document=number,
                        documents=len(documents),
                        part=part,
                        parts=parts,
                    )
            except ApplianceError as exc:
                draft.failure = exc.to_failure()
            yield RowDone(row=_row(record, columns, draft), document=number, documents=len(documents))

    async def _read(
        self, task: ExtractTask, columns: Columns, record: DocumentRecord, draft: _Draft
    ) -> AsyncGenerator[tuple[int, int], None]:
        """Read a document part by part; yields before each."""
        chunks = await asyncio.to_thread(self._store.chunks_of, task.owner, record.document_id)
        if not chunks:
            raise InvalidRequestError(
                f"{record.name} has no text to read" + (f": {record.message}" if record.message else ""),
                hint="the library says why",
            )
        if record.pages_without_text:
            draft.notes.append(f"{len(record.pages_without_text)} pages have no text")
        parts = await self._parts(task, columns, chunks)
        for number, part in enumerate(parts, start=1):
            yield number, len(parts)
            await self._read_part(task, columns, part, draft, f"part {number} of {len(parts)}")

    async def _read_part(
        self, task: ExtractTask, columns: Columns, part: Sequence[StoredChunk], draft: _Draft, where: str
    ) -> None:
        builder = ContextBuilder(self._counter, await self._budget(task))
        passages = [passage_of(chunk) for chunk in part]
        built = await builder.build(_request(task, columns), passages=passages, keeps_order=True)
        draft.receipts.append(built.receipt.to_json())
        draft.notes += _cuts(built)
        result = await self._gateway.generate(built.request)
        draft.usage = _sum(draft.usage, result.usage)
        if isinstance(result, GenerateFailure):
            draft.failure = draft.failure or result.failure
            draft.notes.append(f"{where} was not read: {result.failure.message}")
            return
        if result.finish_reason == "length":
            draft.notes.append(f"{where} filled its {task.answer_tokens} tokens; lists may miss their end")
        draft.read_parts += 1
        values = result.value if isinstance(result.value, dict) else {}
        for name in columns.names:
            value = values.get(name)
            if isinstance(value, str) and len(value) >= LONGEST_TEXT_CHARACTERS:
                draft.notes.append(f"{name} has {len(value):,} characters or more; its end may be missing")
            found = _Found(value=value, evidence=evidence_of(name, value, part))
            draft.found.setdefault(name, []).append(found)

    async def _parts(
        self, task: ExtractTask, columns: Columns, chunks: Sequence[StoredChunk]
    ) -> list[list[StoredChunk]]:
        """Group passages in order so that each group fits beside the schema and the values."""
        bare = _request(task, columns)
        available = (await self._budget(task)).available_tokens
        room = available - await self._counter.count_request(bare) - _FRAME_TOKENS
        parts: list[list[StoredChunk]] = []
        used_tokens = 0
        for chunk in chunks:
            # The widest number is counted, so that the place in its part does not matter.
            tokens = await self._counter.count_text(f"{passage_of(chunk).rendered(len(chunks))}\n", bare)
            if not parts or used_tokens + tokens > room:
                parts.append([])
                used_tokens = 0
            parts[-1].append(chunk)
            used_tokens += tokens
        return parts

    async def _budget(self, task: ExtractTask) -> ContextBudget:
        window = (await self._gateway.capabilities(task.model)).context_window
        return ContextBudget(context_window=window, reserved_tokens=task.answer_tokens)


def _request(task: ExtractTask, columns: Columns) -> GenerateRequest:
    words = task.instruction.strip()
    prompt = shipped_prompts().get(PROMPT_ID)
    rendered = prompt.render(user={"instruction": UserText(f"{words}\n")} if words else {})
    return rendered.request(
        task.model,
        owner=task.owner,
        sampling=replace(task.sampling, max_tokens=task.answer_tokens),
        output=columns.asked,
        deadline=task.deadline,
        routing=RoutingNeeds(stage="extract"),
    )


def _cuts(built: BuiltContext) -> list[str]:
    entries = built.receipt.section("documents").entries
    return [
        f"{entry.label}: {entry.cut_tokens} tokens did not fit"
        for entry in entries
        if entry.outcome != "kept"
    ]


def _row(record: DocumentRecord, columns: Columns, draft: _Draft) -> ExtractedRow:
    row = ExtractedRow(
        document_id=record.document_id,
        name=record.name,
        source=record.source,
        notes=tuple(draft.notes),
        parts=len(draft.receipts),
        usage=draft.usage,
        receipts=tuple(draft.receipts),
        failure=draft.failure,
    )
    if not draft.read_parts:
        return row
    chosen = {name: _chosen(draft.found[name]) for name in columns.names}
    values = {name: found.value for name, found in chosen.items()}
    others = [note for name, found in chosen.items() for note in _others(name, found, draft.found[name])]
    return replace(
        row,
        values=values,
        evidence=tuple(one for found in chosen.values() for one in found.evidence),
        problems=columns.problems(values),
        notes=(*draft.notes, *others),
        failure=None,
    )


def _chosen(candidates: Sequence[_Found]) -> _Found:
    """Join lists; of other values take the one with the best evidence, the first of equal ones."""
    lists = [one for one in candidates if isinstance(one.value, list) and one.value]
    if len(lists) > 1:
        return _joined(lists)
    return max(candidates, key=lambda one: one.rank)


def _joined(lists: Sequence[_Found]) -> _Found:
    items: list[JsonValue] = []
    evidence: list[FieldEvidence] = []
    for found in lists:
        assert isinstance(found.value, list)
        for position, item in enumerate(found.value):
            if item in items:
                continue
            mark, moved = f"[{position}]", f"[{len(items)}]"
            for one in found.evidence:
                name, _, rest = one.path.partition("[")
                if f"[{rest}".startswith(mark):
                    path = f"{name}{moved}{f'[{rest}'.removeprefix(mark)}"
                    evidence.append(replace(one, path=path))
            items.append(item)
    return _Found(value=items, evidence=tuple(evidence))


def _others(name: str, chosen: _Found, candidates: Sequence[_Found]) -> list[str]:
    """Name other values that stand in the document as well: two parts that differ are not silent."""
    if isinstance(chosen.value, list | dict):
        return []
    return [
        f"{name}: {one.evidence[0].place or 'another part'} has {one.value!r}"
        for one in candidates
        if one.value != chosen.value and one.evidence and one.evidence[0].is_found
    ]


def _sum(first: Usage, second: Usage) -> Usage:
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        cached_tokens=first.cached_tokens + second.cached_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
    )
