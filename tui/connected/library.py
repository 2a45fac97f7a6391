"""The documents of a running appliance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

from appliance.context.wording import PROMPT_ID
from appliance.core.errors import ApplianceError
from appliance.core.events import Completed, ModelIdentity, StreamEvent, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings
from appliance.memory.document_scope import DocumentScope
from appliance.memory.prompt import PreparedPrompt, PreparePrompt, ReportFolding
from appliance.memory.turns import Chat, Turn
from tui.connected.server import ServerConnection, number, objects, texts, usage_of, whole
from tui.counting import counted
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

_PASSAGES = 12


class LibraryOfServer:
    """`LibraryPort` over HTTP."""

    def __init__(self, server: ServerConnection, model: Callable[[], str]) -> None:
        self._server = server
        self._model = model
        self._names: list[NamedSource] = []

    def close(self) -> None:
        """Nothing is held here; the connection is closed by its owner."""

    async def documents(self) -> list[DocumentRow]:
        """Return every document of the token's owner."""
        told = await self._server.get("/v1/documents")
        return [_document_row(one) for one in objects(told.get("documents"))]

    async def add(self, path: str, collection: str) -> AsyncGenerator[WorkEvent, None]:
        """Send files, one after the other; closing the generator stops after the one in work."""
        from appliance.retrieval.files import find_files

        found = await asyncio.to_thread(lambda: list(find_files([path])))
        where = f"/v1/collections/{quote(collection, safe='')}/documents"
        for done, file in enumerate(found):
            yield WorkProgress(what=f"sending {file.path.name}", done=done, total=len(found), unit="files")
            try:
                data = await asyncio.to_thread(Path(file.path).read_bytes)
                told = await self._server.upload(where, file.path.name, data)
                yield WorkLine(text=f"{told.get('outcome', 'sent')} {file.path.name}")
            except (ApplianceError, OSError) as exc:
                yield WorkLine(text=f"failed {file.path.name} ({exc})", is_bad=True)

    async def remove(self, document_id: str) -> str:
        """Remove a document for good; say what was checked."""
        told = await self._server.delete(f"/v1/documents/{quote(document_id, safe='')}")
        remains = "; ".join(texts(told.get("remains"))) or "no trace left in table, full text or vectors"
        return f"removed: {counted(whole(told.get('passages')), 'passage')}; {remains}"

    async def search(self, question: str) -> SearchView:
        """Search by words and meaning."""
        began_s = perf_counter()
        told = await self._server.post("/v1/search", {"question": question, "limit": _PASSAGES})
        trace = told.get("trace")
        return SearchView(
            passages=tuple(_passage(one) for one in objects(told.get("hits"))),
            cut=(),
            searched_chunks=whole(told.get("searched_passages")),
            duration_s=perf_counter() - began_s,
            notes=texts(trace.get("notes")) if isinstance(trace, dict) else (),
        )

    async def names(self) -> list[NamedSource]:
        """Return what a question can name."""
        rows = await self.documents()
        collections = sorted({row.collection for row in rows})
        self._names = [
            *(NamedSource(name=name, kind="collection") for name in collections),
            *(
                NamedSource(name=row.name, kind="document", document_id=row.document_id)
                for row in rows
                if row.chunk_count
            ),
        ]
        return self._names

    async def text_of(self, document_id: str) -> str:
        """Return a document's text."""
        return str((await self._server.get(f"/v1/documents/{quote(document_id, safe='')}")).get("text", ""))

    def scope_of(self, question: str) -> DocumentScope:
        """Return the documents a question names, as they were when names were last looked at."""
        return scope_of(question, self._names)[0]

    def prompt(self, scope: DocumentScope) -> PreparePrompt:
        """Return what puts a question to the documents there."""

        async def prepare(
            chat: Chat,  # noqa: ARG001
            branch: Sequence[Turn],
            on_folding: ReportFolding,  # noqa: ARG001
        ) -> PreparedPrompt:
            question = without_mentions(branch[-1].text)
            asked = _Asked(self._server, question, self._model(), scope)
            request = GenerateRequest(
                conversation=Conversation.of(UserMessage(text=question)),
                model=self._model(),
                prompt_id=PROMPT_ID,
            )
            return PreparedPrompt(request=request, stream=asked.stream, receipt_at_end=asked.receipt_json)

        return prepare


class _Asked:
    """One question to the documents of a server."""

    def __init__(self, server: ServerConnection, question: str, model: str, scope: DocumentScope) -> None:
        self._server = server
        self._body: dict[str, object] = {
            "question": question,
            "model": model.partition("/")[2],
            "collections": list(scope.collections),
            "document_ids": list(scope.document_ids),
        }
        self._told: dict[str, object] = {}

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent, None]:
        """Yield the checked answer as one delta."""
        began_s = perf_counter()
        self._told = await self._server.post("/v1/answers", self._body)
        evidence = self._told.get("evidence")
        text = str(self._told.get("text", ""))
        if self._told.get("kind") == "refused" and isinstance(evidence, dict):
            text = f"{text} Passages looked at: {len(objects(evidence.get('looked_at')))}."
        took_s = perf_counter() - began_s
        yield TextDelta(text=text)
        yield Completed(
            finish_reason="stop",
            usage=usage_of(self._told.get("usage")),
            timings=replace(Timings(), total_s=took_s, ttft_s=took_s),
            model=ModelIdentity(provider="server", name=request.model),
        )

    def receipt_json(self) -> str:
        """Return what the answer stands on."""
        if not self._told:
            return ""
        sentences = objects(self._told.get("sentences"))
        coverage = self._told.get("coverage")
        receipt = self._told.get("receipt")
        return json.dumps(
            {
                **(receipt if isinstance(receipt, dict) else {}),
                "documents": {
                    "kind": self._told.get("kind"),
                    "coverage": coverage.get("text", "") if isinstance(coverage, dict) else "",
                    "notes": list(texts(self._told.get("notes"))),
                    "unverified": [one.get("text", "") for one in sentences if not one.get("numbers")],
                    "citations": objects(self._told.get("citations")),
                },
            }
        )


def _document_row(told: dict[str, object]) -> DocumentRow:
    reason, message = str(told.get("reason", "")), str(told.get("message", ""))
    return DocumentRow(
        document_id=str(told.get("id", "")),
        collection=str(told.get("collection", "")),
        name=str(told.get("name", "")),
        source=str(told.get("source", "")),
        is_ready=told.get("state") == "ready",
        page_count=whole(told.get("page_count")),
        chunk_count=whole(told.get("chunk_count")),
        missing_vectors=whole(told.get("missing_vectors")),
        problem=f"{reason}: {message}" if reason else "; ".join(texts(told.get("notices"))),
    )


def _passage(told: dict[str, object]) -> PassageRow:
    similarity = told.get("similarity")
    return PassageRow(
        name=str(told.get("name", "")),
        place=str(told.get("place", "")),
        text=str(told.get("text", "")),
        score=number(told.get("score")),
        similarity=float(similarity) if isinstance(similarity, int | float) else None,
        dense_rank=0,
        text_rank=0,
    )
