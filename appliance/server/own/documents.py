"""Collections and documents of the caller: upload, list, read, delete, search."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from appliance.core.errors import DocumentError
from appliance.retrieval.ingest import FileFound, FileResult, check_collection_name
from appliance.retrieval.library import Library
from appliance.retrieval.records import DocumentRecord, StoredChunk
from appliance.retrieval.search import SearchRequest
from appliance.retrieval.trace import SearchResult
from appliance.server.own.incoming import IncomingFile, incoming_file
from appliance.server.problems import not_found
from appliance.server.services import DocumentCaller, ServicesOf
from appliance.server.teams.tokens import Caller
from appliance.server.wire import JsonObject, Text, Wire

router = APIRouter(prefix="/v1", tags=["Documents"])

_OUTCOME_STATUS = {"added": 201}
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)]
Ids = Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=1_000)]


class SearchBody(Wire):
    """What to look for, where, and how."""

    question: Text
    collections: Names = Field(default_factory=list)
    document_ids: Ids = Field(default_factory=list)
    mode: Literal["hybrid", "dense", "text"] = "hybrid"
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    per_document: Annotated[int, Field(ge=0, le=100)] = 0
    neighbours: Annotated[int, Field(ge=0, le=20)] = 0
    diversity: Annotated[float, Field(ge=0, le=1)] = 0.0
    explain: bool = False


@router.get("/collections")
async def list_collections(caller: DocumentCaller, services: ServicesOf) -> JsonObject:
    """List the caller's collections with what they hold."""
    library = await services.library.get()

    def listed() -> list[JsonObject]:
        names = library.store.collections(caller.owner)
        return [{"name": name, **asdict(library.store.counts(caller.owner, (name,)))} for name in names]

    return {"collections": await asyncio.to_thread(listed)}


@router.post(
    "/collections/{collection:path}/documents",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def add_document(
    collection: str,
    name: Annotated[str, Query(min_length=1, max_length=255)],
    request: Request,
    caller: DocumentCaller,
    services: ServicesOf,
) -> JSONResponse:
    """Take the bytes of a file, read it, and make it findable. A file of the same name is replaced.

    Raises:
        DocumentError: it cannot be read; says why.
    """
    check_collection_name(collection)
    library = await services.library.get()
    async with incoming_file(services.appliance.settings.data_dir, name, request.stream()) as file:
        result = await _ingested(library, caller, collection, file)
    if result.outcome == "failed":
        raise DocumentError(f"{name}: {result.message}", reason=result.reason or "unreadable")
    await asyncio.to_thread(
        services.audit.append, caller.owner, "document.added", result.document_id, outcome=result.outcome
    )
    return JSONResponse(_result_json(result), status_code=_OUTCOME_STATUS.get(result.outcome, 200))


@router.get("/documents")
async def list_documents(
    caller: DocumentCaller,
    services: ServicesOf,
    collection: Annotated[str | None, Query(max_length=100)] = None,
) -> JsonObject:
    """List the caller's documents, those that could not be read with the reason."""
    library = await services.library.get()
    names = (collection,) if collection else ()
    records = await asyncio.to_thread(library.store.documents, caller.owner, names)
    return {"documents": [record_json(record) for record in records]}


@router.get("/documents/{document_id}")
async def show_document(document_id: str, caller: DocumentCaller, services: ServicesOf) -> JsonObject:
    """Show one document with its text."""
    library = await services.library.get()
    record = await find_document(library, caller.owner, document_id)
    parsed = await asyncio.to_thread(library.store.parsed, caller.owner, document_id)
    return {**record_json(record), "text": "" if parsed is None else parsed.text}


@router.delete("/documents/{document_id}")
async def delete_document(document_id: str, caller: DocumentCaller, services: ServicesOf) -> JsonObject:
    """Remove a document for good, from the store, the index and its old versions."""
    library = await services.library.get()
    record = await find_document(library, caller.owner, document_id)
    removal = await asyncio.to_thread(library.remove, caller.owner, [record])
    await asyncio.to_thread(services.audit.append, caller.owner, "document.deleted", document_id)
    return {"deleted": document_id, "passages": removal.removed_chunks, "remains": list(removal.remains)}


@router.post("/search")
async def search(
    body: SearchBody, request: Request, caller: DocumentCaller, services: ServicesOf
) -> JsonObject:
    """Find the passages that answer a question, by words and meaning."""
    library = await services.library.get()
    await check_collections(library, caller.owner, body.collections)
    asked = SearchRequest(
        question=body.question,
        owner=caller.owner,
        collections=tuple(body.collections),
        document_ids=tuple(body.document_ids),
        mode=body.mode,
        limit=body.limit,
        per_document=body.per_document,
        neighbours=body.neighbours,
        diversity=body.diversity,
    )
    work = asyncio.to_thread(library.searcher.search, asked)
    found = await services.running.unless_gone(request, work)
    return _search_json(found, explains=body.explain)


async def find_document(library: Library, owner: str, document_id: str) -> DocumentRecord:
    """Return a document of an owner.

    Raises:
        RefusedError: this owner has none of this id, whoever else may.
    """
    for record in await asyncio.to_thread(library.store.documents, owner):
        if record.document_id == document_id:
            return record
    raise not_found(f"there is no document {document_id[:80]!r}", hint="GET /v1/documents lists yours")


async def check_collections(library: Library, owner: str, names: Names) -> None:
    """Refuse a collection that does not exist, rather than find nothing in it.

    Raises:
        RefusedError: names the ones there are.
    """
    known = await asyncio.to_thread(library.store.collections, owner)
    for name in names:
        if name not in known:
            raise not_found(
                f"there is no collection {name!r}", hint=f"there are: {', '.join(known) or 'none yet'}"
            )


def record_json(record: DocumentRecord) -> JsonObject:
    """Return a document as its owner sees it."""
    values = asdict(record)
    del values["owner"]
    return {"id": values.pop("document_id"), **values}


async def _ingested(library: Library, caller: Caller, collection: str, file: IncomingFile) -> FileResult:
    stop = threading.Event()
    found = FileFound(path=file.path, source=file.source)

    def ingest() -> FileResult:
        report = library.ingestion.add(
            [found], owner=caller.owner, collection=collection, should_stop=stop.is_set, retry_failed=True
        )
        library.fill_vectors(should_stop=stop.is_set)
        return report.results[0]

    try:
        return await asyncio.shield(asyncio.to_thread(ingest))
    except asyncio.CancelledError:
        stop.set()
        raise


def _result_json(result: FileResult) -> JsonObject:
    return {
        "id": result.document_id,
        "outcome": result.outcome,
        "message": result.message,
        "chunk_count": result.chunk_count,
        "page_count": result.page_count,
        "pages_without_text": list(result.pages_without_text),
        "notices": list(result.notices),
    }


def _search_json(found: SearchResult, *, explains: bool) -> JsonObject:
    hits = [
        {
            "score": hit.score,
            "similarity": hit.similarity,
            **_chunk_json(hit.chunk),
            "before": [_chunk_json(chunk) for chunk in hit.before],
            "after": [_chunk_json(chunk) for chunk in hit.after],
        }
        for hit in found.hits
    ]
    trace = asdict(found.trace) if explains else {"notes": list(found.trace.notes)}
    return {"hits": hits, "searched_passages": found.trace.searched_chunks, "trace": trace}


def _chunk_json(chunk: StoredChunk) -> JsonObject:
    return {
        "document_id": chunk.document_id,
        "collection": chunk.collection,
        "name": chunk.name,
        "place": chunk.place,
        "heading_path": list(chunk.heading_path),
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
    }
