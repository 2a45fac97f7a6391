"""What is true about documents and chunks, in SQLite; the index of vectors and words follows it.

A chunk's `is_in_words` and `vector_digest` say what of it stands in the index. No chunk id is used twice:
an id in `removed_chunks` has left this table and may still have to leave the index.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from appliance.core.errors import InternalError
from appliance.documents.model import ParsedDocument
from appliance.retrieval.chunking import Chunk
from appliance.retrieval.records import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    Counts,
    DocumentRecord,
    StoredChunk,
    document_record,
    stored_chunk,
)
from appliance.retrieval.tables import RETRIEVAL_SCHEMA

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from appliance.storage.database import Database

_PARAMETERS_AT_ONCE = 900
_SUMS = "COUNT(*), COALESCE(SUM(d.state = 'failed'), 0), COALESCE(SUM(d.chunk_count), 0)"
_INSERTED = (
    "document_id, owner, collection, source, name, title, media_type, sha256, size_bytes, parser, chunker, "
    "state, reason, message, page_count, pages_without_text, notices, character_count, "
    "chunk_count, parsed"
)


class DocumentStore:
    """Reads and writes documents and chunks; every reading names its owner."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate((RETRIEVAL_SCHEMA,))

    @property
    def database(self) -> Database:
        """The file that holds the tables."""
        return self._database

    def put(
        self,
        *,
        document_id: str,
        owner: str,
        collection: str,
        source: str,
        document: ParsedDocument,
        chunks: Sequence[Chunk],
        chunker: str,
    ) -> None:
        """Store a document in one step; what the same source held before leaves in the same step."""
        packed = _packed(document)  # takes a while for a large one: not while others wait to write
        # A power cut may take the last documents with it; their files are still there and are added again.
        with self._database.transaction(is_synced=False) as connection:
            _delete(connection, owner, collection, source)
            row_id = _insert_document(
                connection,
                (document_id, owner, collection, source, document.name, document.metadata.title.strip(),
                 document.media_type, document.sha256, document.size_bytes, document.parser, chunker, "ready",
                 "", "", document.page_count, json.dumps(document.pages_without_text),
                 json.dumps([notice.message for notice in document.notices]), len(document.text),
                 len(chunks), packed),
            )  # fmt: skip
            _insert_chunks(connection, row_id, document, chunks)

    def replace_chunks(
        self, owner: str, document_id: str, document: ParsedDocument, chunks: Sequence[Chunk], chunker: str
    ) -> None:
        """Put other chunks of the same document in place of the ones it has."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "SELECT id FROM documents WHERE owner = ? AND document_id = ?", (owner, document_id)
            ).fetchone()
            if row is None:
                return
            connection.execute(
                "INSERT INTO removed_chunks SELECT chunk_id FROM chunks WHERE document = ?", (row[0],)
            )
            connection.execute("DELETE FROM chunks WHERE document = ?", (row[0],))
            connection.execute(
                "UPDATE documents SET chunker = ?, chunk_count = ? WHERE id = ?",
                (chunker, len(chunks), row[0]),
            )
            _insert_chunks(connection, row[0], document, chunks)

    def put_failure(
        self,
        *,
        document_id: str,
        owner: str,
        collection: str,
        source: str,
        name: str,
        sha256: str,
        size_bytes: int,
        parser: str,
        reason: str,
        message: str,
    ) -> None:
        """Record that a source cannot be read; an older readable version of it stays and says so."""
        with self._database.transaction() as connection:
            updated = connection.execute(
                "UPDATE documents SET reason = ?, message = ? "
                "WHERE owner = ? AND collection = ? AND source = ? AND state = 'ready'",
                (reason, message, owner, collection, source),
            )
            if updated.rowcount:
                return
            _delete(connection, owner, collection, source)
            _insert_document(
                connection,
                (document_id, owner, collection, source, name, "", "", sha256, size_bytes, parser, "",
                 "failed", reason, message, 0, "[]", "[]", 0, 0, b""),
            )  # fmt: skip

    def rename(self, owner: str, document_id: str, source: str, name: str) -> None:
        """Say that a document now lies elsewhere; its words hold no path, so the index stands."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE documents SET source = ?, name = ? WHERE owner = ? AND document_id = ?",
                (source, name, owner, document_id),
            )

    def remove(self, owner: str, document_ids: Iterable[str]) -> list[str]:
        """Remove documents with their chunks; return the ids that were there."""
        removed: list[str] = []
        with self._database.transaction() as connection:
            for document_id in document_ids:
                row = connection.execute(
                    "SELECT collection, source FROM documents WHERE owner = ? AND document_id = ?",
                    (owner, document_id),
                ).fetchone()
                if row is not None:
                    _delete(connection, owner, *row)
                    removed.append(document_id)
        return removed

    def find(self, owner: str, collection: str, source: str) -> DocumentRecord | None:
        """Return the document of a source."""
        found = self._records(
            "d.owner = ? AND d.collection = ? AND d.source = ?", (owner, collection, source)
        )
        return found[0] if found else None

    def find_content(self, owner: str, collection: str, sha256: str) -> DocumentRecord | None:
        """Return a readable document with this content."""
        found = self._records(
            "d.owner = ? AND d.collection = ? AND d.sha256 = ? AND d.state = 'ready'",
            (owner, collection, sha256),
        )
        return found[0] if found else None

    def documents(self, owner: str, collections: Sequence[str] = ()) -> list[DocumentRecord]:
        """List the documents of an owner, of some collections or of all."""
        if not collections:
            return self._records("d.owner = ?", (owner,))
        marks = ", ".join("?" * len(collections))
        return self._records(f"d.owner = ? AND d.collection IN ({marks})", (owner, *collections))

    def collections(self, owner: str) -> list[str]:
        """List the collections that hold something."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT collection FROM documents WHERE owner = ? ORDER BY collection", (owner,)
            )
            return [str(row[0]) for row in rows]

    def parsed(self, owner: str, document_id: str) -> ParsedDocument | None:
        """Return a document as it was parsed, with its whole text and structure."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT parsed FROM documents WHERE owner = ? AND document_id = ? AND state = 'ready'",
                (owner, document_id),
            ).fetchone()
        return None if row is None else _unpacked(row[0])

    def chunks(self, owner: str, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        """Return those of the chunks that exist and belong to the owner, by id."""
        found: dict[int, StoredChunk] = {}
        with self._database.read() as connection:
            for start in range(0, len(chunk_ids), _PARAMETERS_AT_ONCE):
                part = chunk_ids[start : start + _PARAMETERS_AT_ONCE]
                marks = ", ".join("?" * len(part))
                # The cross join keeps SQLite from walking through all chunks of all the owner's documents.
                rows = connection.execute(
                    f"SELECT {CHUNK_COLUMNS} FROM chunks c CROSS JOIN documents d ON d.id = c.document "  # noqa: S608
                    f"WHERE c.chunk_id IN ({marks}) AND d.owner = ?",
                    (*part, owner),
                )
                found.update((int(row[0]), stored_chunk(row)) for row in rows)
        return found

    def chunks_of(
        self, owner: str, document_id: str, first: int = 0, last: int = 1 << 62
    ) -> list[StoredChunk]:
        """Return the chunks of a document from one ordinal to another, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document "  # noqa: S608
                "WHERE d.owner = ? AND d.document_id = ? AND c.ordinal BETWEEN ? AND ? ORDER BY c.ordinal",
                (owner, document_id, first, last),
            )
            return [stored_chunk(row) for row in rows]

    def counts(self, owner: str, collections: Sequence[str] = ()) -> Counts:
        """Count documents and chunks, and what the index still lacks."""
        where, values = _scope(owner, collections)
        with self._database.read() as connection:
            documents, failed, chunks = connection.execute(
                f"SELECT {_SUMS} FROM documents d WHERE {where}",  # noqa: S608
                values,
            ).fetchone()
            words, vectors = self._missing(connection, where, values)
        return Counts(
            documents=documents,
            failed_documents=failed,
            chunks=chunks,
            missing_words=words,
            missing_vectors=vectors,
        )

    def missing_vectors(self, owner: str, collections: Sequence[str] = ()) -> int:
        """Count chunks that have no vector yet."""
        where, values = _scope(owner, collections)
        with self._database.read() as connection:
            return self._missing(connection, where, values)[1]

    def _missing(
        self, connection: sqlite3.Connection, where: str, values: tuple[str, ...]
    ) -> tuple[int, int]:
        counted = [
            connection.execute(
                f"SELECT COALESCE(SUM(c.missing), 0) FROM (SELECT document, COUNT(*) AS missing FROM chunks "  # noqa: S608
                f"WHERE {condition} GROUP BY document) c CROSS JOIN documents d ON d.id = c.document WHERE {where}",
                values,
            ).fetchone()[0]
            for condition in ("is_in_words = 0", "vector_digest = ''")
        ]
        return int(counted[0]), int(counted[1])

    def without_words(self, limit: int) -> list[StoredChunk]:
        """Return some chunks of any owner that the full-text index lacks."""
        return self._chunks_where("c.is_in_words = 0", limit)

    def without_vector(self, limit: int) -> list[StoredChunk]:
        """Return some chunks of any owner that have no vector."""
        return self._chunks_where("c.vector_digest = ''", limit)

    def mark_words(self, chunk_ids: Sequence[int]) -> None:
        """Record that the full-text index holds these chunks."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE chunks SET is_in_words = 1 WHERE chunk_id = ?",
                [(chunk_id,) for chunk_id in chunk_ids],
            )

    def mark_vectors(self, chunk_ids: Sequence[int], digest: str) -> None:
        """Record that the vector index holds these chunks, embedded by this embedder."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE chunks SET vector_digest = ? WHERE chunk_id = ?",
                [(digest, chunk_id) for chunk_id in chunk_ids],
            )

    def forget_index(self, *, words: bool, vectors: bool) -> None:
        """Record that the index holds nothing, so that it is filled again."""
        with self._database.transaction() as connection:
            if words:
                connection.execute("UPDATE chunks SET is_in_words = 0 WHERE is_in_words = 1")
            if vectors:
                connection.execute("UPDATE chunks SET vector_digest = '' WHERE vector_digest != ''")

    def marked(self) -> tuple[int, int]:
        """Count the chunks that the full text and the vectors should hold."""
        with self._database.read() as connection:
            words, vectors = connection.execute(
                "SELECT COALESCE(SUM(is_in_words), 0), COALESCE(SUM(vector_digest != ''), 0) FROM chunks"
            ).fetchone()
        return int(words), int(vectors)

    def missing_vectors_of_all(self) -> int:
        """Count chunks of every owner that have no vector yet."""
        with self._database.read() as connection:
            row = connection.execute("SELECT COUNT(*) FROM chunks WHERE vector_digest = ''").fetchone()
            return int(row[0])

    def reconcile(self, *, words: set[int], vectors: set[int]) -> tuple[int, int, int]:
        """Correct the marks to what the index really holds; return how many were wrong in each.

        Chunks that the index holds and SQLite does not are put down for removal.
        """
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT chunk_id, is_in_words, vector_digest FROM chunks").fetchall()
            known = {int(row[0]) for row in rows}
            lost_words = [(row[0],) for row in rows if row[1] and row[0] not in words]
            lost_vectors = [(row[0],) for row in rows if row[2] and row[0] not in vectors]
            connection.executemany("UPDATE chunks SET is_in_words = 0 WHERE chunk_id = ?", lost_words)
            connection.executemany("UPDATE chunks SET vector_digest = '' WHERE chunk_id = ?", lost_vectors)
            # What a crash wrote and did not mark is written again, which replaces it.
            orphans = [(chunk_id,) for chunk_id in (words | vectors) - known]
            connection.executemany("INSERT OR IGNORE INTO removed_chunks (chunk_id) VALUES (?)", orphans)
        return len(lost_words), len(lost_vectors), len(orphans)

    def removed_chunks(self) -> list[int]:
        """Return the ids of chunks that are gone here and may still stand in the index."""
        with self._database.read() as connection:
            return [int(row[0]) for row in connection.execute("SELECT chunk_id FROM removed_chunks")]

    def settle_removed(self, chunk_ids: Sequence[int]) -> None:
        """Record that the index no longer holds these."""
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM removed_chunks WHERE chunk_id = ?", [(chunk_id,) for chunk_id in chunk_ids]
            )

    def existing(self, chunk_ids: Sequence[int]) -> set[int]:
        """Return those of the ids that still are chunks."""
        with self._database.read() as connection:
            found: set[int] = set()
            for start in range(0, len(chunk_ids), _PARAMETERS_AT_ONCE):
                part = chunk_ids[start : start + _PARAMETERS_AT_ONCE]
                marks = ", ".join("?" * len(part))
                rows = connection.execute(f"SELECT chunk_id FROM chunks WHERE chunk_id IN ({marks})", part)  # noqa: S608
                found.update(int(row[0]) for row in rows)
            return found

    def fact(self, name: str) -> str:
        """Return a remembered fact of the index, or an empty text."""
        with self._database.read() as connection:
            row = connection.execute("SELECT value FROM retrieval_facts WHERE name = ?", (name,)).fetchone()
            return "" if row is None else str(row[0])

    def remember(self, name: str, value: str) -> None:
        """Remember a fact of the index."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO retrieval_facts (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )

    def every_document(self) -> Iterator[DocumentRecord]:
        """Yield every readable document of every owner, for maintenance."""
        yield from self._records("d.state = 'ready'", ())

    def _chunks_where(self, condition: str, limit: int) -> list[StoredChunk]:
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {CHUNK_COLUMNS} FROM chunks c CROSS JOIN documents d ON d.id = c.document "  # noqa: S608
                f"WHERE {condition} ORDER BY c.document, c.chunk_id LIMIT ?",
                (limit,),
            )
            return [stored_chunk(row) for row in rows]

    def _records(self, where: str, values: tuple[str, ...]) -> list[DocumentRecord]:
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {DOCUMENT_COLUMNS}, "  # noqa: S608
                "(SELECT COUNT(*) FROM chunks c WHERE c.document = d.id AND c.vector_digest = '') "
                f"FROM documents d WHERE {where} ORDER BY d.collection, d.source",
                values,
            )
            return [document_record(row) for row in rows]


def _scope(owner: str, collections: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    if not collections:
        return "d.owner = ?", (owner,)
    marks = ", ".join("?" * len(collections))
    return f"d.owner = ? AND d.collection IN ({marks})", (owner, *collections)


def _insert_document(connection: sqlite3.Connection, values: tuple[object, ...]) -> int:
    marks = ", ".join("?" * len(values))
    cursor = connection.execute(f"INSERT INTO documents ({_INSERTED}) VALUES ({marks})", values)  # noqa: S608
    if cursor.lastrowid is None:
        raise InternalError("SQLite gave the new document no row id")
    return cursor.lastrowid


def _insert_chunks(
    connection: sqlite3.Connection, row_id: int, document: ParsedDocument, chunks: Sequence[Chunk]
) -> None:
    connection.executemany(
        "INSERT INTO chunks (document, ordinal, start, end, text, heading_path, prefix, token_count, "
        "segments) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (row_id, chunk.ordinal, chunk.start, chunk.end, chunk.text,
             json.dumps(chunk.heading_path), chunk.prefix, chunk.token_count,
             _segments_json(document, chunk))
            for chunk in chunks
        ],
    )  # fmt: skip


def _delete(connection: sqlite3.Connection, owner: str, collection: str, source: str) -> None:
    where = "document IN (SELECT id FROM documents WHERE owner = ? AND collection = ? AND source = ?)"
    connection.execute(
        f"INSERT INTO removed_chunks SELECT chunk_id FROM chunks WHERE {where}",  # noqa: S608
        (owner, collection, source),
    )
    connection.execute(
        "DELETE FROM documents WHERE owner = ? AND collection = ? AND source = ?", (owner, collection, source)
    )


def _segments_json(document: ParsedDocument, chunk: Chunk) -> str:
    return json.dumps(
        [(segment.start, segment.label) for segment in document.segments_between(chunk.start, chunk.end)]
    )


@lru_cache(maxsize=1)
def _document_format() -> TypeAdapter[ParsedDocument]:
    from pydantic import TypeAdapter

    return TypeAdapter(ParsedDocument)


def _packed(document: ParsedDocument) -> bytes:
    return zlib.compress(_document_format().dump_json(document), 1)


def _unpacked(packed: bytes) -> ParsedDocument:
    return _document_format().validate_json(zlib.decompress(packed))
