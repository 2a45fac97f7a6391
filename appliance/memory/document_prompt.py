"""Answers a question of a chat from documents, and keeps its citations with the answer.

Text is shown once code has held it against the documents: what stands in the chat has its numbers and marks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, replace

from appliance.context.answers import DocumentAnswer
from appliance.context.asking import DocumentAsker, PreparedQuestion
from appliance.context.question import DocumentQuestion
from appliance.core.errors import InvalidRequestError
from appliance.core.events import (
    Completed,
    Failed,
    ModelIdentity,
    PrefillProgress,
    StreamEvent,
    TextDelta,
    UsageReported,
)
from appliance.core.requests import LOCAL_OWNER, GenerateRequest, SamplingParams
from appliance.core.usage import Timings, Usage
from appliance.memory.document_scope import DocumentScope
from appliance.memory.prompt import PreparedPrompt, ReportFolding
from appliance.memory.turns import Chat, Turn

CODE = ModelIdentity(provider="appliance", name="documents, no model asked")
"""Who answers when the documents hold too little to ask a model."""


class DocumentPrompt:
    """A `PreparePrompt` that puts the last question to documents, told in full from the turns before it."""

    def __init__(
        self, asker: DocumentAsker, *, model: str, scope: DocumentScope, owner: str = LOCAL_OWNER
    ) -> None:
        self._asker = asker
        self._model = model
        self._scope = scope
        self._owner = owner

    async def __call__(
        self,
        chat: Chat,
        branch: Sequence[Turn],
        on_folding: ReportFolding,  # noqa: ARG002
    ) -> PreparedPrompt:
        """Search, and build the prompt with its receipt.

        Raises:
            InvalidRequestError: a collection does not exist, or there is no question.
            ContextOverflowError: the question alone does not fit.
            ApplianceError: the model or the index cannot be used.
        """
        if branch[-1].role != "user":
            raise InvalidRequestError("documents answer questions only")
        asked = DocumentQuestion(
            question=branch[-1].text,
            model=self._model,
            collections=self._scope.collections,
            document_ids=self._scope.document_ids,
            system=chat.system_text,
            history=tuple(said for turn in branch[:-1] if (said := turn.message()) is not None),
            sampling=SamplingParams(temperature=0.0),
            owner=self._owner,
        )
        answering = _Answering(self._asker, asked, await self._asker.prepare(asked))
        return PreparedPrompt(
            request=answering.prepared.built.request,
            receipt_json=json.dumps(answering.prepared.built.receipt.to_json()),
            stream=answering.stream,
            receipt_at_end=answering.receipt_json,
        )


class _Answering:
    """One answer on its way."""

    def __init__(self, asker: DocumentAsker, asked: DocumentQuestion, prepared: PreparedQuestion) -> None:
        self._asker = asker
        self._asked = asked
        self.prepared = prepared
        self._answer: DocumentAnswer | None = None

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent, None]:
        """Yield how far the model is, then the checked text as one delta."""
        built = replace(self.prepared.built, request=request)
        arriving: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        task = asyncio.ensure_future(
            self._asker.answer_prepared(self._asked, replace(self.prepared, built=built), arriving.put_nowait)
        )
        task.add_done_callback(lambda _: arriving.put_nowait(None))
        progress = _Progress()
        try:
            while (event := await arriving.get()) is not None:
                if (shown := progress.shown(event)) is not None:
                    yield shown
            self._answer = await task
        finally:
            task.cancel()
            await asyncio.wait({task})
        if text := _text_of(self._answer):
            yield TextDelta(text=text)
        yield progress.terminal or Completed(
            finish_reason="stop", usage=Usage(), timings=Timings(), model=CODE
        )

    def receipt_json(self) -> str:
        """Return the receipt with what the answer stands on; an empty text before there is an answer."""
        if self._answer is None:
            return ""
        answer = self._answer
        receipt = answer.receipt.to_json() if answer.receipt else {}
        return json.dumps(
            {
                **receipt,
                "documents": {
                    "kind": answer.kind,
                    "coverage": str(answer.coverage),
                    "searched_for": list(answer.search.queries),
                    "rewritten_by": answer.rewritten_by,
                    "supported_share": answer.supported_share,
                    "notes": list(answer.notes),
                    "unverified": [one.text for one in answer.sentences if not one.is_supported],
                    "citations": [asdict(one) for one in answer.citations],
                },
            }
        )


class _Progress:
    """Turns the events of the model into those of an answer that is not shown yet."""

    def __init__(self) -> None:
        self.terminal: Completed | Failed | None = None
        self._usage = Usage()

    def shown(self, event: StreamEvent) -> StreamEvent | None:
        """Return what may be shown of an event before the answer is checked."""
        match event:
            case Completed() | Failed():
                self.terminal = event
                return None
            case TextDelta():
                self._usage = replace(self._usage, output_tokens=self._usage.output_tokens + 1)
                return UsageReported(usage=self._usage)
            case PrefillProgress():
                self._usage = Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens)
                return event
            case _:
                return event


def _text_of(answer: DocumentAnswer) -> str:
    """Return what stands in the chat: a refusal says what was looked at; a failed model leaves only quotes."""
    if answer.kind != "refused":
        return answer.text
    return "" if answer.failure else answer.evidence.refusal
