"""The library of the terminal interface: collections, documents, search with scores."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.config import Settings
from appliance.core.requests import LOCAL_OWNER
from appliance.gateway import Gateway
from appliance.memory.chat_prompt import AnswerChoice
from appliance.memory.document_scope import DocumentScope
from appliance.memory.prompt import PreparedPrompt, PreparePrompt, ReportFolding
from appliance.memory.turns import Chat, Turn
from tui.counting import counted
from tui.in_process.streaming import Report, reported
from tui.mentions import scope_of, without_mentions
from tui.rows import (
    DocumentRow,
    NamedSource,
    PassageRow,
    SearchView,
    WorkEvent,
    WorkLine,
    WorkProgress,
)

if TYPE_CHECKING:
    from appliance.retrieval.ingest import FileResult
    from appliance.retrieval.library import Library
    from appliance.retrieval.records import DocumentRecord
    from appliance.retrieval.search import SearchRequest
    from appliance.retrieval.store import DocumentStore
    from appliance.retrieval.trace import CandidateTrace, SearchHit

_LIMIT = 12
_SHOWN_CUT = 12


class LibraryOfDocuments:
    """`LibraryPort` over the library of the data folder, opened when it is first needed."""

    def __init__(
        self,
        settings: Settings,
        gateway: Callable[[], Gateway],
        choice: AnswerChoice,
        *,
        forget_prompts: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._forget_prompts = forget_prompts
        self._choice = choice
        self._gateway = gateway
        self._library: Library | None = None
        self._opening = threading.Lock()

    def close(self) -> None:
        """End parser processes and close the database."""
        if self._library is not None:
            self._library.close()

    async def documents(self) -> list[DocumentRow]:
        """Return every document."""
        return await asyncio.to_thread(self._documents)

    def add(self, path: str, collection: str) -> AsyncGenerator[WorkEvent, None]:
        """Bring in a file or a folder, then fill its vectors."""
        return reported(lambda report, stop: self._add(path, collection, report, stop))

    async def remove(self, document_id: str) -> str:
        """Remove a document for good, from the prompts that running models keep too; say what was checked."""
        receipt = await asyncio.to_thread(self._remove, document_id)
        await self._forget_prompts()
        return f"{receipt}; kept prompts of running models are cleared"

    async def search(self, question: str) -> SearchView:
        """Search by words and meaning."""
        from appliance.retrieval.search import SearchRequest

        return await asyncio.to_thread(
            self._search, SearchRequest(question=question, owner=LOCAL_OWNER, limit=_LIMIT)
        )

    async def names(self) -> list[NamedSource]:
        """Return what a question can name: collections, then documents that have text."""
        return await asyncio.to_thread(self._names)

    def prompt(self, scope: DocumentScope) -> PreparePrompt:
        """Return what puts a question to documents; the library is opened when it is asked."""

        async def prepare(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
            from appliance.context.asking import DocumentAsker
            from appliance.memory.document_prompt import DocumentPrompt

            question = replace(branch[-1], text=without_mentions(branch[-1].text))
            asker = DocumentAsker(self._gateway(), await asyncio.to_thread(self.opened))
            return await DocumentPrompt(asker, model=self._choice.model, scope=scope)(
                chat, [*branch[:-1], question], on_folding
            )

        return prepare

    def scope_of(self, question: str) -> DocumentScope:
        """Return the documents that a question names with @."""
        return scope_of(question, self._names())[0]

    async def text_of(self, document_id: str) -> str:
        """Return a document's text."""
        return await asyncio.to_thread(self._text_of, document_id)

    def opened(self) -> Library:
        """Return the library, opened and checked when it is first needed. Blocks."""
        from appliance.app import open_library

        with self._opening:
            if self._library is None:
                library = open_library(self._settings)
                try:
                    library.check()
                except BaseException:
                    library.close()
                    raise
                self._library = library
            return self._library

    def _names(self) -> list[NamedSource]:
        from appliance.retrieval.store import DocumentStore
        from appliance.storage.database import STORE_FILE, Database

        if self._library is not None:
            return named_sources(self._library.store)
        database = Database(self._settings.data_dir / STORE_FILE)
        try:
            return named_sources(DocumentStore(database))
        finally:
            database.close()

    def _documents(self) -> list[DocumentRow]:
        return [_document_row(record) for record in self.opened().store.documents(LOCAL_OWNER)]

    def _add(self, path: str, collection: str, report: Report, stop: threading.Event) -> None:
        from appliance.retrieval.files import find_files

        library = self.opened()
        outcome = library.ingestion.add(
            find_files([path]),
            owner=LOCAL_OWNER,
            collection=collection,
            listener=_Listener(report),
            should_stop=stop.is_set,
        )
        report(WorkLine(text=f"files looked at: {len(outcome.results)}, failed: {outcome.count('failed')}"))

        def on_vectors(done: int, total: int) -> None:
            report(WorkProgress(what="filling vectors", done=done, total=total, unit="vectors"))

        library.fill_vectors(on_vectors, should_stop=stop.is_set)

    def _remove(self, document_id: str) -> str:
        library = self.opened()
        removal = library.remove(LOCAL_OWNER, library.select(LOCAL_OWNER, [document_id]))
        names = ", ".join(record.name for record in removal.documents)
        rest = "; ".join(removal.remains) or "no trace left in table, full text or vectors"
        return f"removed {names}: {counted(removal.removed_chunks, 'passage')}; {rest}"

    def _search(self, request: SearchRequest) -> SearchView:
        result = self.opened().searcher.search(request)
        trace = result.trace
        traced = {candidate.chunk_id: candidate for candidate in trace.candidates}
        cut = [candidate for candidate in trace.candidates if candidate.cut is not None]
        return SearchView(
            passages=tuple(_passage(hit, traced.get(hit.chunk.chunk_id)) for hit in result.hits),
            cut=tuple(_cut_passage(candidate) for candidate in cut[:_SHOWN_CUT]),
            searched_chunks=trace.searched_chunks,
            duration_s=trace.duration_s,
            notes=trace.notes,
        )

    def _text_of(self, document_id: str) -> str:
        document = self.opened().store.parsed(LOCAL_OWNER, document_id)
        return document.text if document else ""


class _Listener:
    """Turns what an ingestion says into events."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._files = 0

    def on_wait(self, pid: int) -> None:
        """Say that another process is adding."""
        self._report(WorkProgress(what=f"waiting for process {pid}, which is adding too", unit="files"))

    def on_pages(self, source: str, done: int, total: int) -> None:
        """Say how far a file is."""
        self._report(WorkProgress(what=f"reading {source}", done=done, total=total, unit="files"))

    def on_file(self, result: FileResult) -> None:
        """Say what became of a file."""
        self._files += 1
        why = f" ({result.reason}: {result.message})" if result.reason else ""
        bad = result.outcome == "failed"
        self._report(WorkLine(text=f"{result.outcome} {result.source}{why}", is_bad=bad))


def named_sources(store: DocumentStore) -> list[NamedSource]:
    """Return the collections of a store, then its documents that have text."""
    collections = [NamedSource(name=name, kind="collection") for name in store.collections(LOCAL_OWNER)]
    documents = [
        NamedSource(name=record.name, kind="document", document_id=record.document_id)
        for record in store.documents(LOCAL_OWNER)
        if record.chunk_count
    ]
    return [*collections, *documents]


def _document_row(record: DocumentRecord) -> DocumentRow:
    return DocumentRow(
        document_id=record.document_id,
        collection=record.collection,
        name=record.name,
        source=record.source,
        is_ready=record.state == "ready",
        page_count=record.page_count,
        chunk_count=record.chunk_count,
        missing_vectors=record.missing_vectors,
        problem=_problem(record),
    )


def _problem(record: DocumentRecord) -> str:
    if record.reason:
        return f"{record.reason}: {record.message}"
    parts = list(record.notices)
    if record.pages_without_text:
        parts.append(f"{len(record.pages_without_text)} pages have no text")
    return "; ".join(parts)


def _passage(hit: SearchHit, trace: CandidateTrace | None) -> PassageRow:
    return PassageRow(
        name=hit.chunk.name,
        place=hit.chunk.place,
        text=hit.chunk.text,
        score=hit.score,
        similarity=hit.similarity,
        dense_rank=trace.dense_rank if trace else 0,
        text_rank=trace.text_rank if trace else 0,
    )


def _cut_passage(candidate: CandidateTrace) -> PassageRow:
    return PassageRow(
        name=candidate.source,
        place=candidate.place,
        text="",
        score=candidate.fused_score,
        similarity=candidate.dense_score,
        dense_rank=candidate.dense_rank,
        text_rank=candidate.text_rank,
        cut=candidate.cut or "",
    )
