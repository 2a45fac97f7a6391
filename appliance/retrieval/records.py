"""Documents, chunks and counts as SQLite tells them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

DocumentState = Literal["ready", "failed"]

Row = tuple[str | int, ...]


DOCUMENT_COLUMNS = (
    "d.document_id, d.owner, d.collection, d.source, d.name, d.title, d.media_type, d.sha256, d.size_bytes, "
    "d.parser, d.chunker, d.state, d.reason, d.message, d.page_count, d.pages_without_text, d.notices, "
    "d.character_count, d.chunk_count"
)
CHUNK_COLUMNS = (
    "c.chunk_id, d.document_id, d.owner, d.collection, d.source, d.name, d.title, c.ordinal, c.start, c.end, "
    "c.text, c.heading_path, c.prefix, c.token_count, c.segments"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRecord:
    """A document as `docs` lists it. `reason` and `message` tell why it failed, or why its update failed."""

    document_id: str
    owner: str
    collection: str
    source: str
    name: str
    title: str
    media_type: str
    sha256: str
    size_bytes: int
    parser: str
    chunker: str
    state: DocumentState
    reason: str
    message: str
    page_count: int
    pages_without_text: tuple[int, ...]
    notices: tuple[str, ...]
    character_count: int
    chunk_count: int
    missing_vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk with where it stands, enough to cite it.

    `segments` are the pages, sheets or slides it touches: where each begins, and what a reader calls it.
    """

    chunk_id: int
    document_id: str
    owner: str
    collection: str
    source: str
    name: str
    title: str
    ordinal: int
    start: int
    end: int
    text: str
    heading_path: tuple[str, ...]
    prefix: str
    token_count: int
    segments: tuple[tuple[int, str], ...]

    @property
    def embedded_text(self) -> str:
        """What the embedder gets."""
        return f"{self.prefix}\n{self.text}" if self.prefix else self.text

    @property
    def words(self) -> str:
        """What the full-text index gets."""
        return f"{self.title}\n{self.embedded_text}" if self.title else self.embedded_text

    @property
    def place(self) -> str:
        """Where a reader finds it, such as `page 3` or `pages 3-4`."""
        return self.place_of(self.start, self.end)

    def place_of(self, start: int, end: int) -> str:
        """Where the characters from `start` to `end` of the document stand, as far as the chunk reaches."""
        touched = [
            label
            for (begin, label), after in zip(
                self.segments, [*self.segments[1:], (self.end + 1, "")], strict=True
            )
            if begin < end and after[0] > start
        ]
        if not touched:
            return ""
        return touched[0] if touched[0] == touched[-1] else f"{touched[0]} to {touched[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many documents and chunks there are, and how many chunks the index still lacks."""

    documents: int
    failed_documents: int
    chunks: int
    missing_words: int
    missing_vectors: int


def document_record(row: Row) -> DocumentRecord:
    """Read a row of `DOCUMENT_COLUMNS` and the two counts after them."""
    texts = [str(value) for value in row]
    return DocumentRecord(
        document_id=texts[0],
        owner=texts[1],
        collection=texts[2],
        source=texts[3],
        name=texts[4],
        title=texts[5],
        media_type=texts[6],
        sha256=texts[7],
        size_bytes=int(row[8]),
        parser=texts[9],
        chunker=texts[10],
        state="ready" if texts[11] == "ready" else "failed",
        reason=texts[12],
        message=texts[13],
        page_count=int(row[14]),
        pages_without_text=tuple(json.loads(texts[15])),
        notices=tuple(json.loads(texts[16])),
        character_count=int(row[17]),
        chunk_count=int(row[18]),
        missing_vectors=int(row[19]),
    )


def stored_chunk(row: Row) -> StoredChunk:
    """Read a row of `CHUNK_COLUMNS`."""
    texts = [str(value) for value in row]
    return StoredChunk(
        chunk_id=int(row[0]),
        document_id=texts[1],
        owner=texts[2],
        collection=texts[3],
        source=texts[4],
        name=texts[5],
        title=texts[6],
        ordinal=int(row[7]),
        start=int(row[8]),
        end=int(row[9]),
        text=texts[10],
        heading_path=_heading_path(texts[11]),
        prefix=texts[12],
        token_count=int(row[13]),
        segments=_segments(texts[14]),
    )


# Chunks of one place in a document share both, and a search reads some two hundred chunks.
@lru_cache(maxsize=1_000)
def _heading_path(packed: str) -> tuple[str, ...]:
    return tuple(json.loads(packed))


@lru_cache(maxsize=1_000)
def _segments(packed: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(start), str(label)) for start, label in json.loads(packed))
