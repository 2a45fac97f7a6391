"""Stored chunks made by hand: each passage is a document of its own that holds it from character 100 on."""

from __future__ import annotations

from appliance.retrieval.records import StoredChunk

OFFSET = 100


def chunk(number: int, text: str, *, page: str = "page 1") -> StoredChunk:
    return StoredChunk(
        chunk_id=number,
        document_id=f"d{number}",
        owner="local",
        collection="c",
        source=f"/docs/{number}.pdf",
        name=f"{number}.pdf",
        title="",
        ordinal=0,
        start=OFFSET,
        end=OFFSET + len(text),
        text=text,
        heading_path=(),
        prefix="",
        token_count=10,
        segments=((0, page),),
    )


def stored_text(chunks: list[StoredChunk], document_id: str) -> str | None:
    """The text of the document a chunk is from, as the store would return it."""
    return next(("x" * OFFSET + one.text for one in chunks if one.document_id == document_id), None)
