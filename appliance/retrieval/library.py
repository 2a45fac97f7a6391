"""The documents of one data folder: add, fill, search, remove, reindex. What front ends use."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from appliance.core.errors import InvalidRequestError, StorageError
from appliance.documents.names import shown_name
from appliance.documents.parser import DocumentParser
from appliance.retrieval.chunking import ChunkSettings
from appliance.retrieval.embedder import FastembedEmbedder
from appliance.retrieval.index import Progress, Repair, RetrievalIndex
from appliance.retrieval.ingest import Ingestion
from appliance.retrieval.locks import try_exclusive
from appliance.retrieval.opening import PassageEmbedder
from appliance.retrieval.records import DocumentRecord
from appliance.retrieval.rerank import ClosableReranker
from appliance.retrieval.search import Searcher
from appliance.retrieval.store import DocumentStore
from appliance.storage.database import STORE_FILE, Database
from appliance.storage.lock import LockHolder, read_holder

_ID_LENGTH = 32
_SHORTEST_ID = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What was removed, and what a search for it afterwards still found; nothing, when all is well."""

    documents: tuple[DocumentRecord, ...]
    removed_chunks: int
    remains: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFill:
    """How many vectors were computed and how many are missing still; `other` fills them at this moment."""

    done: int
    missing: int
    other: LockHolder | None = None


class Library:
    """Everything about documents of one data folder. Use it as a context, so that processes end."""

    def __init__(
        self,
        database: Database,
        index: RetrievalIndex,
        parser: DocumentParser,
        ingestion: Ingestion,
        searcher: Searcher,
        held: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._held = tuple(held)
        self._database = database
        self._parser = parser
        self.index = index
        self.store = index.store
        self.ingestion = ingestion
        self.searcher = searcher

    @classmethod
    def open(
        cls,
        data_dir: Path,
        embedder_folder: Path,
        *,
        embedder_languages: Sequence[str] = (),
        chunking: ChunkSettings | None = None,
        threads: int = 2,
    ) -> Library:
        """As `over`, with the ONNX embedder of a folder.

        Raises:
            ModelNotFoundError: the embedder is not on this machine.
            StorageError: the data folder cannot be used.
        """
        embedder = FastembedEmbedder.load(embedder_folder, threads=threads)
        return cls.over(
            data_dir, embedder, embedder_languages=embedder_languages, chunking=chunking, threads=threads
        )

    @classmethod
    def over(
        cls,
        data_dir: Path,
        embedder: PassageEmbedder,
        *,
        embedder_languages: Sequence[str] = (),
        index_uri: str = "",
        language: str = "English",
        chunking: ChunkSettings | None = None,
        storage_options: Mapping[str, str] | None = None,
        reranker: ClosableReranker | None = None,
        threads: int = 2,
    ) -> Self:
        """Open or create the library of a data folder; `index_uri` may be an object store such as `s3://…`.

        Closing the library closes the embedder.

        Raises:
            StorageError: the data folder cannot be used.
        """
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database(data_dir / STORE_FILE)
        store = DocumentStore(database)
        index = RetrievalIndex(
            store,
            uri=index_uri or str(_private_folder(data_dir / "index")),
            embedder=embedder,
            language=language,
            storage_options=storage_options,
        )
        parser = DocumentParser(processes=threads)
        ingestion = Ingestion(
            index, parser, embedder, digest=embedder.digest, chunking=chunking, workers=threads
        )
        held = [embedder.close] if reranker is None else [embedder.close, reranker.close]
        searcher = Searcher(index, reranker=reranker, languages=embedder_languages)
        return cls(database, index, parser, ingestion, searcher, held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of parsers and models and the threads of searches, and close the database."""
        self.searcher.close()
        self._parser.close()
        for release in self._held:
            release()
        self._database.close()

    def check(self) -> Repair:
        """Compare the index with SQLite and repair it."""
        return self.index.check()

    def fill_vectors(
        self, on_progress: Progress | None = None, *, should_stop: Callable[[], bool] = lambda: False
    ) -> VectorFill:
        """Compute missing vectors, unless another process does; it takes new passages along."""
        path = self._database.path.with_name("vectors.lock")
        lock = try_exclusive(path, role="add")
        if lock is None:
            return VectorFill(done=0, missing=self.store.missing_vectors_of_all(), other=read_holder(path))
        with lock:
            done = self.index.fill_vectors(on_progress, should_stop=should_stop)
            if done:
                self.index.maintain()
        return VectorFill(done=done, missing=self.store.missing_vectors_of_all())

    def reindex(self, on_chunks: Progress | None = None) -> int:
        """Build the index anew from SQLite: chunks where their rules changed, words at once, vectors to be filled.

        Returns how many documents were cut anew.
        """
        recut = self.ingestion.rechunk(on_chunks)
        self.index.begin_anew()
        self.index.apply_removals()
        self.index.fill_words()
        return recut

    def select(
        self, owner: str, selectors: Sequence[str], collections: Sequence[str] = ()
    ) -> list[DocumentRecord]:
        """Return the documents that a user means: by id, path, folder, file name or pattern.

        Raises:
            InvalidRequestError: a selector matches nothing, or the beginning of several ids.
        """
        documents = self.store.documents(owner, collections)
        chosen: dict[str, DocumentRecord] = {}
        for selector in selectors:
            matches = [record for record in documents if _is_meant(record, selector)]
            if not matches:
                raise InvalidRequestError(
                    f"no document matches {shown_name(selector)!r}", hint="`appliance docs` lists them"
                )
            chosen.update((record.document_id, record) for record in matches)
        return list(chosen.values())

    def remove(self, owner: str, documents: Sequence[DocumentRecord]) -> Removal:
        """Remove documents from the store, the index and its old versions, then look for what remains.

        Raises:
            StorageError: another program reads old data, so that bytes could not be scrubbed yet.
        """
        chunk_ids = {
            chunk.chunk_id
            for record in documents
            for chunk in self.store.chunks_of(owner, record.document_id)
        }
        self.store.remove(owner, [record.document_id for record in documents])
        self.index.purge()
        return Removal(
            documents=tuple(documents),
            removed_chunks=len(chunk_ids),
            remains=tuple(self._remains(owner, documents, chunk_ids)),
        )

    def _remains(self, owner: str, documents: Sequence[DocumentRecord], chunk_ids: set[int]) -> list[str]:
        found = [
            f"the document table still lists {record.source}"
            for record in documents
            if self.store.parsed(owner, record.document_id) is not None
        ]
        for name, held in (("full text", self.index.words.held()), ("vectors", self.index.vectors.held())):
            if left := chunk_ids & held:
                found.append(f"the {name} still holds {len(left)} passages")
        if left := self.store.existing(sorted(chunk_ids)):
            found.append(f"the chunk table still holds {len(left)} passages")
        return found


def _is_meant(record: DocumentRecord, selector: str) -> bool:
    if record.document_id == selector:
        return True
    if _SHORTEST_ID <= len(selector) <= _ID_LENGTH and record.document_id.startswith(selector):
        return True
    path = str(Path(selector).expanduser().absolute())
    if record.source in (selector, path) or record.source.startswith(path.rstrip("/") + "/"):
        return True
    return (
        record.name == selector
        or fnmatch.fnmatchcase(record.source, selector)
        or fnmatch.fnmatchcase(record.name, selector)
    )


def _private_folder(folder: Path) -> Path:
    """Lance makes its files readable for everyone, and they hold the passages."""
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as exc:
        raise StorageError(f"the folder {folder} cannot be made private: {exc.strerror}") from exc
    return folder
