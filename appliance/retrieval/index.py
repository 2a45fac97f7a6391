"""The index as a whole: words and vectors in LanceDB, kept equal to what SQLite says.

Every write to the index happens under one lock file beside the database, in short steps: what SQLite lists as
missing is written, then marked; what SQLite lists as removed is deleted, then settled. A crash between two
steps leaves work to do, never something wrong: searches ask SQLite for every chunk they show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from appliance.core.ports import Embedder
from appliance.retrieval.lance import LanceStore
from appliance.retrieval.locks import exclusive
from appliance.retrieval.store import DocumentStore
from appliance.retrieval.vector_index import VectorIndex
from appliance.retrieval.word_index import WordIndex

_WORDS_AT_ONCE = 2_000
_VECTORS_AT_ONCE = 64
_LOCK_TIMEOUT_S = 60.0


class QueryEmbedder(Embedder, Protocol):
    """An embedder that may treat a search query differently from a passage."""

    def embed_query(self, text: str) -> list[float]:
        """Embed one search query."""
        ...

    def fits_query(self, text: str) -> bool:
        """Whether a search query is embedded whole."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a check found and put right; zero everywhere when all was well."""

    lost_words: int = 0
    lost_vectors: int = 0
    leftovers: int = 0

    @property
    def is_needed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.lost_words or self.lost_vectors or self.leftovers)


# Gets the chunks done and the chunks left.
Progress = Callable[[int, int], None]


class RetrievalIndex:
    """Fills, repairs, searches and forgets, following the store."""

    def __init__(
        self,
        store: DocumentStore,
        *,
        uri: str,
        embedder: QueryEmbedder,
        language: str = "English",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._lance = LanceStore(uri, storage_options)
        self.words = WordIndex(self._lance, language)
        self.vectors = VectorIndex(self._lance, digest=embedder.digest, dimension=embedder.dimension)

    @property
    def embedder(self) -> QueryEmbedder:
        """The embedder whose vectors the index holds."""
        return self._embedder

    @property
    def store(self) -> DocumentStore:
        """What is true."""
        return self._store

    def check(self) -> Repair:
        """Compare the index with SQLite and put right what differs; cheap when the counts agree.

        Vectors of another embedder are left as they are; whoever needs vectors is refused then.
        """
        with self.writing("check"):
            if not self.words.is_usable():
                self.words.rebuild()
            if not self.vectors.exists():
                self.vectors.rebuild()
            repair = self._reconcile()
        if repair.is_needed:
            self.fill_words()
        self.apply_removals()
        return repair

    def fill_words(self) -> int:
        """Write every chunk that the full-text index lacks; return how many."""
        done = 0
        while True:
            with self.writing("add"):
                chunks = self._store.without_words(_WORDS_AT_ONCE)
                if not chunks:
                    break
                self.words.add(chunks)
                self._store.mark_words([chunk.chunk_id for chunk in chunks])
            done += len(chunks)
        return done

    def fill_vectors(
        self,
        on_progress: Progress | None = None,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> int:
        """Embed every chunk that has no vector, in small steps that each survive a crash; return how many.

        Raises:
            ConfigError: the index holds vectors of another embedder.
        """
        self.vectors.is_usable()
        done = 0
        while not should_stop():
            chunks = self._store.without_vector(_VECTORS_AT_ONCE)
            if not chunks:
                break
            vectors = self._embedder.embed([chunk.embedded_text for chunk in chunks])
            with self.writing("add"):
                existing = self._store.existing([chunk.chunk_id for chunk in chunks])
                pairs = [pair for pair in zip(chunks, vectors, strict=True) if pair[0].chunk_id in existing]
                if pairs:
                    self.vectors.add([pair[0] for pair in pairs], [pair[1] for pair in pairs])
                    self._store.mark_vectors([pair[0].chunk_id for pair in pairs], self._embedder.digest)
            done += len(pairs)
            if on_progress is not None:
                on_progress(done, self._store.missing_vectors_of_all())
        return done

    def apply_removals(self) -> int:
        """Delete from the index what is gone in SQLite; return how many chunks."""
        with self.writing("remove"):
            removed = self._store.removed_chunks()
            if removed:
                self.words.delete(removed)
                self.vectors.delete(removed)
                self._store.settle_removed(removed)
        return len(removed)

    def maintain(self) -> None:
        """Compact, and bring the indexes up to date where it matters; versions stay bounded."""
        with self.writing("maintenance"):
            self.words.maintain()
            self.vectors.maintain()

    def settle(self) -> None:
        """Do all maintenance at once, as after a large addition."""
        with self.writing("maintenance"):
            self.words.settle()
            self.vectors.settle()

    def purge(self) -> None:
        """Make removed text and vectors unrecoverable, in the index, in its old versions and in SQLite.

        Raises:
            StorageError: a reader holds on to old data; the message says so.
        """
        self.apply_removals()
        with self.writing("remove"):
            self.words.purge()
            self.vectors.purge()
        self._store.database.scrub()

    def begin_anew(self, *, words: bool = True, vectors: bool = True) -> None:
        """Drop tables, so that filling builds them again from SQLite, also for another embedder."""
        with self.writing("reindex"):
            self._store.forget_index(words=words, vectors=vectors)
            if words:
                self.words.rebuild()
            if vectors:
                self.vectors.rebuild()

    def writing(self, role: str) -> AbstractContextManager[None]:
        """Hold the lock of the one writer of the index."""
        path = self._store.database.path.with_name("index.lock")
        return exclusive(path, role=role, timeout_s=_LOCK_TIMEOUT_S)

    def _reconcile(self) -> Repair:
        words, vectors = self.words.count(), self.vectors.count()
        if (words, vectors) == self._store.marked():
            return Repair()
        lost_words, lost_vectors, leftovers = self._store.reconcile(
            words=self.words.held(), vectors=self.vectors.held()
        )
        return Repair(lost_words=lost_words, lost_vectors=lost_vectors, leftovers=leftovers)
