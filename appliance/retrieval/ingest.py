"""Bring files into the store: each one added, updated, unchanged, failed or skipped, with the reason.

A file is known by its content, its parser and its chunker; a second run over the same files does nothing. A
document and its chunks enter in one transaction and take the place of what the same path held before. Words
follow within moments; vectors are filled in behind by `RetrievalIndex.fill_vectors`.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from appliance.core.errors import CancelledRequestError, DocumentError, InvalidRequestError
from appliance.documents.intake import opened
from appliance.documents.limits import Limits
from appliance.documents.model import ParsedDocument
from appliance.documents.names import shown_name, storable_name
from appliance.documents.versions import is_current, readers_digest
from appliance.retrieval.chunking import Chunk, ChunkSettings, TokenMeter, chunk_document
from appliance.retrieval.index import RetrievalIndex
from appliance.retrieval.locks import WaitReporter, exclusive
from appliance.retrieval.records import DocumentRecord

Outcome = Literal["added", "updated", "unchanged", "failed", "skipped"]

_DEFAULT_LIMITS = Limits()
_WAIT_FOR_OTHER_S = 3600.0
_WORDS_EVERY_CHUNKS = 2_000
# Reasons that another try of the same bytes may not meet again.
_PASSING_REASONS = frozenset(
    (
        "not_found",
        "no_permission",
        "io_error",
        "changed_while_reading",
        "deadline",
        "memory",
        "parser_crashed",
    )
)


class DocumentReader(Protocol):
    """Turns a file into a document; `DocumentParser` is one."""

    def parse(
        self,
        path: Path,
        limits: Limits,
        *,
        on_progress: Callable[[int, int], None],
        is_cancelled: Callable[[], bool],
    ) -> ParsedDocument:
        """Read one file.

        Raises:
            DocumentError: it cannot be read.
            CancelledRequestError: `is_cancelled` said so.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFound:
    """A file to bring in, or one to leave out and why. `source` is the path that names it from now on."""

    path: Path
    source: str
    skip_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """What became of one file. `notices` are facts about its text that a reader must know."""

    source: str
    outcome: Outcome
    reason: str = ""
    message: str = ""
    document_id: str = ""
    chunk_count: int = 0
    page_count: int = 0
    pages_without_text: tuple[int, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """Every file of a run with its outcome; a stopped run lists what it came to."""

    results: tuple[FileResult, ...]
    is_stopped: bool = False

    def count(self, outcome: Outcome) -> int:
        """Count the files with an outcome."""
        return sum(result.outcome == outcome for result in self.results)


class IngestListener(Protocol):
    """Is told how a run goes on."""

    def on_wait(self, pid: int) -> None:
        """Another process is adding; this run waits for it."""
        ...

    def on_pages(self, source: str, done: int, total: int) -> None:
        """Pages of a file were read."""
        ...

    def on_file(self, result: FileResult) -> None:
        """A file is finished."""
        ...


class QuietListener:
    """Listens to nothing."""

    def on_wait(self, pid: int) -> None:
        """Ignore it."""

    def on_pages(self, source: str, done: int, total: int) -> None:
        """Ignore it."""

    def on_file(self, result: FileResult) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A file that was read and cut, waiting to be stored."""

    document: ParsedDocument
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class _Identity:
    """What identifies a file's content before it is read."""

    name: str
    sha256: str
    size_bytes: int


class Ingestion:
    """Adds files for one owner and collection at a time."""

    def __init__(
        self,
        index: RetrievalIndex,
        reader: DocumentReader,
        meter: TokenMeter,
        *,
        digest: str,
        chunking: ChunkSettings | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        workers: int = 2,
    ) -> None:
        self._index = index
        self._store = index.store
        self._reader = reader
        self._meter = meter
        self._chunking = chunking or ChunkSettings()
        self._chunker = f"{self._chunking.version}-{digest[:12]}"
        self._limits = limits
        self._workers = workers

    def add(
        self,
        files: Iterable[FileFound],
        *,
        owner: str,
        collection: str,
        listener: IngestListener | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        retry_failed: bool = False,
    ) -> IngestReport:
        """Bring files in; what was finished when a run is stopped stays, and the next run goes on from there.

        Raises:
            InvalidRequestError: the collection has no usable name.
            ConfigError: the index holds vectors of another embedder.
            StorageError: the disk is full, or another process has been adding for an hour.
        """
        check_collection_name(collection)
        self._index.vectors.is_usable()
        run = _Run(self, owner, collection, listener or QuietListener(), should_stop, retry_failed)
        lock_path = self._store.database.path.with_name("add.lock")
        with exclusive(lock_path, role="add", timeout_s=_WAIT_FOR_OTHER_S, on_wait=_reporter(run.listener)):
            results = run.all(files)
            self._index.fill_words()
            self._index.apply_removals()
            self._index.maintain()
        return IngestReport(results=tuple(results), is_stopped=should_stop())

    def rechunk(self, on_progress: Callable[[int, int], None] | None = None) -> int:
        """Cut every stored document anew where the cutting rules or the embedder changed; return how many."""
        records = [record for record in self._store.every_document() if record.chunker != self._chunker]
        for done, record in enumerate(records, start=1):
            document = self._store.parsed(record.owner, record.document_id)
            if document is not None:
                chunks = chunk_document(document, self._meter, self._chunking)
                self._store.replace_chunks(record.owner, record.document_id, document, chunks, self._chunker)
            if on_progress is not None:
                on_progress(done, len(records))
        return len(records)

    def prepare(
        self, path: Path, on_pages: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> _Prepared:
        """Read and cut one file."""
        document = self._reader.parse(path, self._limits, on_progress=on_pages, is_cancelled=stop)
        return _Prepared(document, chunk_document(document, self._meter, self._chunking))

    def identify(self, path: Path) -> _Identity:
        """Hash one file."""
        with opened(path, self._limits) as file:
            return _Identity(file.name, file.sha256, file.size_bytes)

    def is_current(self, record: DocumentRecord, identity: _Identity) -> bool:
        """Whether a stored document is what the file would give now."""
        return (
            record.sha256 == identity.sha256
            and record.chunker == self._chunker
            and not record.reason
            and is_current(record.parser)
        )

    @property
    def index(self) -> RetrievalIndex:
        """Where chunks become findable."""
        return self._index

    @property
    def workers(self) -> int:
        """Files that are read at one time."""
        return self._workers

    @property
    def chunker(self) -> str:
        """Names the cutting rules and the tokenizer."""
        return self._chunker


class _Run:
    """One call of `add`."""

    def __init__(
        self,
        ingestion: Ingestion,
        owner: str,
        collection: str,
        listener: IngestListener,
        should_stop: Callable[[], bool],
        retry_failed: bool,
    ) -> None:
        self._ingestion = ingestion
        self._store = ingestion.index.store
        self._owner = owner
        self._collection = collection
        self.listener = listener
        self._should_stop = should_stop
        self._retry_failed = retry_failed
        self._chunks_since_words = 0
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="words")
        self._words: Future[int] | None = None

    def all(self, files: Iterable[FileFound]) -> list[FileResult]:
        """Go through the files in order, reading a few ahead."""
        results: list[FileResult] = []
        with (
            ThreadPoolExecutor(self._ingestion.workers, thread_name_prefix="read") as pool,
            self._beside,
        ):
            waiting: deque[tuple[FileFound, Future[FileResult | _Work]]] = deque()
            try:
                for file in self._until_stopped(files):
                    waiting.append((file, pool.submit(self._look_at, file)))
                    if len(waiting) > 2 * self._ingestion.workers:
                        self._finish(*waiting.popleft(), results)
                while waiting:
                    self._finish(*waiting.popleft(), results)
                self._await_words()
            finally:
                for _, future in waiting:
                    future.cancel()
        return results

    def _until_stopped(self, files: Iterable[FileFound]) -> Iterator[FileFound]:
        seen: set[str] = set()
        for file in files:
            if self._should_stop():
                return
            if file.source not in seen:
                seen.add(file.source)
                yield file

    def _look_at(self, file: FileFound) -> FileResult | _Work:
        """Decide what a file needs and do the slow part of it; runs beside the storing of other files."""
        if file.skip_reason:
            return FileResult(source=file.source, outcome="skipped", message=file.skip_reason)
        try:
            identity = self._ingestion.identify(file.path)
        except DocumentError as exc:
            return _Work(_Identity(storable_name(file.path.name), "", 0), error=exc)
        known = self._store.find(self._owner, self._collection, file.source)
        if known is not None and (settled := self._settled(known, identity)) is not None:
            return settled
        if known is None and (twin := self._twin(file, identity)) is not None:
            return twin
        try:
            prepared = self._ingestion.prepare(file.path, self._pages(file), self._should_stop)
        except DocumentError as exc:
            return _Work(identity, error=exc)
        # The file may have changed since it was hashed; what was read is what counts.
        document = prepared.document
        return _Work(_Identity(identity.name, document.sha256, document.size_bytes), prepared=prepared)

    def _settled(self, known: DocumentRecord, identity: _Identity) -> FileResult | None:
        if known.state == "ready" and self._ingestion.is_current(known, identity):
            return FileResult(
                source=known.source,
                outcome="unchanged",
                document_id=known.document_id,
                chunk_count=known.chunk_count,
            )
        is_lasting = known.reason and known.reason not in _PASSING_REASONS
        if (
            known.state == "failed"
            and known.sha256 == identity.sha256
            and known.parser == readers_digest()
            and is_lasting
            and not self._retry_failed
        ):
            return FileResult(
                source=known.source,
                outcome="failed",
                reason=known.reason,
                message=f"{known.message} (unchanged since it last failed)",
            )
        return None

    def _twin(self, file: FileFound, identity: _Identity) -> FileResult | None:
        """Notice content that is there under another path: a copy is skipped, a moved file is renamed."""
        twin = self._store.find_content(self._owner, self._collection, identity.sha256)
        if twin is None or not self._ingestion.is_current(twin, identity):
            return None
        if Path(twin.source).is_absolute() and not Path(twin.source).exists():
            self._store.rename(self._owner, twin.document_id, file.source, identity.name)
            return FileResult(
                source=file.source,
                outcome="unchanged",
                message=f"moved from {shown_name(twin.source)}",
                document_id=twin.document_id,
                chunk_count=twin.chunk_count,
            )
        return FileResult(
            source=file.source,
            outcome="skipped",
            reason="same_content",
            message=f"same content as {shown_name(twin.source)}",
            document_id=twin.document_id,
        )

    def _pages(self, file: FileFound) -> Callable[[int, int], None]:
        return lambda done, total: self.listener.on_pages(file.source, done, total)

    def _finish(self, file: FileFound, future: Future[FileResult | _Work], results: list[FileResult]) -> None:
        try:
            looked_at = future.result()
        except CancelledRequestError:
            return
        result = looked_at if isinstance(looked_at, FileResult) else self._store_work(file, looked_at)
        results.append(result)
        self.listener.on_file(result)

    def _store_work(self, file: FileFound, work: _Work) -> FileResult:
        if work.prepared is None:
            return self._store_failure(file, work)
        known = self._store.find(self._owner, self._collection, file.source)
        # Two files of one run may hold the same bytes; the first one stored stands for both.
        if known is None and (twin := self._twin(file, work.identity)) is not None:
            return twin
        document, chunks = work.prepared.document, work.prepared.chunks
        document_id = known.document_id if known is not None else uuid.uuid4().hex
        self._store.put(
            document_id=document_id,
            owner=self._owner,
            collection=self._collection,
            source=file.source,
            document=document,
            chunks=chunks,
            chunker=self._ingestion.chunker,
        )
        self._keep_words_close(len(chunks))
        return FileResult(
            source=file.source,
            outcome="updated" if known is not None and known.state == "ready" else "added",
            message=_why_read_again(known, document),
            document_id=document_id,
            chunk_count=len(chunks),
            page_count=document.page_count,
            pages_without_text=document.pages_without_text,
            notices=tuple(notice.message for notice in document.notices),
        )

    def _store_failure(self, file: FileFound, work: _Work) -> FileResult:
        assert work.error is not None
        self._store.put_failure(
            document_id=uuid.uuid4().hex,
            owner=self._owner,
            collection=self._collection,
            source=file.source,
            name=work.identity.name,
            sha256=work.identity.sha256,
            size_bytes=work.identity.size_bytes,
            parser=readers_digest(),
            reason=work.error.reason,
            message=work.error.message,
        )
        return FileResult(
            source=file.source, outcome="failed", reason=work.error.reason, message=work.error.message
        )

    def _keep_words_close(self, new_chunks: int) -> None:
        """Index words behind the storing of documents, never further behind than one round."""
        self._chunks_since_words += new_chunks
        if self._chunks_since_words >= _WORDS_EVERY_CHUNKS:
            self._await_words()
            self._words = self._beside.submit(self._ingestion.index.fill_words)
            self._chunks_since_words = 0

    def _await_words(self) -> None:
        """Raise what went wrong with the words of the last round."""
        if self._words is not None:
            self._words.result()
            self._words = None


@dataclass(frozen=True, slots=True)
class _Work:
    """A file looked at: read and cut, or the reason why not."""

    identity: _Identity
    prepared: _Prepared | None = None
    error: DocumentError | None = None


def _why_read_again(known: DocumentRecord | None, document: ParsedDocument) -> str:
    """Say why a file that did not change was read all the same; nothing when it did."""
    if known is None or known.sha256 != document.sha256 or is_current(known.parser):
        return ""
    return f"read again: the reader changed from {known.parser} to {document.parser}"


def check_collection_name(name: str) -> None:
    """Refuse names that could not be typed, shown or stored.

    Raises:
        InvalidRequestError: the name is empty, too long or not printable.
    """
    if not name or len(name) > 100 or not name.isprintable() or name != name.strip():
        raise InvalidRequestError(
            f"{shown_name(name)[:120]!r} is no usable collection name",
            hint="use 1 to 100 printable characters, such as `contracts`",
        )


def _reporter(listener: IngestListener) -> WaitReporter:
    return lambda holder: listener.on_wait(0 if holder is None else holder.pid)
