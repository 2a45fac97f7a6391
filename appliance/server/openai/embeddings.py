"""`POST /v1/embeddings` and `POST /v1/rerank`: vectors of texts, and texts ordered by a question."""

from __future__ import annotations

import asyncio
import base64
import struct
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from appliance.core.ports import Vector
from appliance.server.problems import refused
from appliance.server.services import NEEDS_DOCUMENTS, ServicesOf
from appliance.server.wire import JsonObject, ModelName, Text, Wire, stated_names

router = APIRouter(tags=["OpenAI"])

_MAX_TEXTS = 2_048


class EmbeddingBody(Wire):
    """Texts to embed. Token ids are refused: they are of another vocabulary."""

    input: Text | Annotated[list[Text], Field(min_length=1, max_length=_MAX_TEXTS)]
    model: ModelName | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


class RerankBody(Wire):
    """Texts to order by how well they answer a question."""

    query: Text
    documents: Annotated[list[Text], Field(min_length=1, max_length=1_000)]
    model: ModelName | None = None
    top_n: Annotated[int, Field(ge=1)] | None = None


@router.post("/v1/embeddings", dependencies=[NEEDS_DOCUMENTS])
async def embed(
    body: EmbeddingBody,
    request: Request,
    services: ServicesOf,
) -> JsonObject:
    """Embed texts; one that is too long is refused, never cut."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    if any(not text for text in texts):
        raise refused("an empty text has no meaning to embed", param="input", code="invalid_value")
    embedder = await services.embedders.get(body.model)
    if body.dimensions is not None and body.dimensions != embedder.dimension:
        raise refused(
            f"vectors of this model have {embedder.dimension} dimensions", param="dimensions",
            hint="leave it out: cutting a vector that was not trained for it makes it worse",
        )  # fmt: skip
    counts = await asyncio.to_thread(lambda: [embedder.count_tokens(text) for text in texts])
    vectors = await services.running.unless_gone(request, asyncio.to_thread(embedder.embed, texts))
    is_packed = body.encoding_format == "base64"
    return {
        "object": "list",
        "model": body.model or services.appliance.settings.embedder,
        "data": [
            {"object": "embedding", "index": place, "embedding": _packed(vector) if is_packed else vector}
            for place, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": sum(counts), "total_tokens": sum(counts)},
        "appliance": {"digest": embedder.digest, "ignored": list(stated_names(body, ("user",)))},
    }


@router.post("/v1/rerank", dependencies=[NEEDS_DOCUMENTS])
async def rerank(
    body: RerankBody,
    request: Request,
    services: ServicesOf,
) -> JsonObject:
    """Order texts by a reranker that is on this machine."""
    reranker = await services.rerankers.get(body.model)
    work = asyncio.to_thread(reranker.score, body.query, body.documents)
    scores = await services.running.unless_gone(request, work)
    ranked = sorted(enumerate(scores), key=lambda scored: -scored[1])[: body.top_n]
    return {
        "object": "list",
        "model": body.model or "",
        "results": [{"index": place, "relevance_score": score} for place, score in ranked],
    }


def _packed(vector: Vector) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
