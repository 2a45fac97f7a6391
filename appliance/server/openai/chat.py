"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import assert_never

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from appliance.core.errors import error_of
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.logprobs import TokenLogprob
from appliance.core.results import GenerateSuccess
from appliance.server.event_stream import DONE, EventStream, Frame, comment, frame
from appliance.server.merging import NumberedEvent
from appliance.server.openai.answering import answered, begun
from appliance.server.openai.answers import (
    added,
    fingerprint,
    receipt_json,
    tool_calls_json,
    usage_json,
)
from appliance.server.openai.chat_request import ChatOrder, chat_order
from appliance.server.openai.chat_wire import ChatBody
from appliance.server.openai.logprobs import chat_logprobs
from appliance.server.services import ChatCaller, ServicesOf
from appliance.server.wire import JsonObject, ignored_headers

router = APIRouter(tags=["OpenAI"])


@router.post("/v1/chat/completions")
async def chat_completion(
    body: ChatBody, request: Request, caller: ChatCaller, services: ServicesOf
) -> Response:
    """Answer a conversation, whole or as a stream."""
    settings = services.appliance.settings
    order = chat_order(
        body, owner=caller.owner, model=services.model(body.model), usual=settings.default_sampling()
    )
    headers = {"x-request-id": order.id, **ignored_headers(order.ignored)}
    if order.is_streamed:
        events = await begun(services, request, order.requests)
        frames = ChatFrames(order).frames(events)
        return EventStream(frames, services.running, write_s=services.options.write_s, headers=headers)
    answers = await answered(services, request, order.requests)
    return JSONResponse(completion_json(order, answers), headers=headers)


def completion_json(order: ChatOrder, answers: list[GenerateSuccess]) -> JsonObject:
    """Return a whole chat completion."""
    return {
        "id": f"chatcmpl-{order.id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answers[0].model.name,
        "choices": [_choice_json(order, number, answer) for number, answer in enumerate(answers)],
        "usage": usage_json(added([answer.usage for answer in answers])),
        "system_fingerprint": fingerprint(answers[0]),
        "appliance": receipt_json(order.requests[0], answers, order.ignored),
    }


def _choice_json(order: ChatOrder, number: int, answer: GenerateSuccess) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": answer.message.text, "refusal": None}
    if answer.message.reasoning:
        message["reasoning_content"] = answer.message.reasoning
    if answer.message.tool_calls:
        message["tool_calls"] = tool_calls_json(answer.message.tool_calls)
        message["content"] = answer.message.text or None
    return {
        "index": number,
        "message": message,
        "logprobs": chat_logprobs(order.requests[number].sampling, answer.logprobs),
        "finish_reason": answer.finish_reason,
    }


class ChatFrames:
    """Writes the events of a chat completion as chunks. Usage and our own field come with the last one."""

    def __init__(self, order: ChatOrder) -> None:
        self._order = order
        self._created_s = int(time.time())
        self._model = order.requests[0].model
        self._endings: dict[int, Completed] = {}
        self._has_role: set[int] = set()
        self._named_calls: set[tuple[int, int]] = set()

    async def frames(self, events: AsyncGenerator[NumberedEvent]) -> AsyncGenerator[Frame]:
        """Yield the frames.

        Raises:
            ApplianceError: an answer failed after it began.
        """
        async with aclosing(events):
            async for number, event in events:
                match event:
                    case TextDelta():
                        yield self._delta(number, {"content": event.text}, event.logprobs)
                    case ReasoningDelta():
                        yield self._delta(number, {"reasoning_content": event.text})
                    case ToolCallDelta():
                        yield self._delta(number, {"tool_calls": [self._call(number, event)]})
                    case PrefillProgress():
                        yield comment(f"prefill {event.processed_tokens}/{event.total_tokens}")
                    case Completed():
                        self._endings[number] = event
                        yield self._ending(number, event)
                    case Failed():
                        raise error_of(event.failure)
                    case LoadProgress() | UsageReported():
                        pass
                    case _:
                        assert_never(event)
        if self._order.includes_usage:
            yield frame({**self._chunk([]), **self._totals()})
        yield DONE

    def _delta(
        self, number: int, delta: Mapping[str, object], logprobs: Sequence[TokenLogprob] = ()
    ) -> Frame:
        if number not in self._has_role:
            self._has_role.add(number)
            delta = {"role": "assistant", **delta}
        sampling = self._order.requests[number].sampling
        told = chat_logprobs(sampling, logprobs) if logprobs else None
        return frame(self._chunk([{**_chunk_choice(number, delta, None), "logprobs": told}]))

    def _ending(self, number: int, ending: Completed) -> Frame:
        role = {} if number in self._has_role else {"role": "assistant", "content": ""}
        self._model = ending.model.name
        chunk = self._chunk([_chunk_choice(number, role, ending.finish_reason)])
        chunk["system_fingerprint"] = fingerprint(ending)
        is_last = len(self._endings) == len(self._order.requests)
        if is_last and not self._order.includes_usage:
            chunk["appliance"] = self._receipt()
        return frame(chunk)

    def _call(self, number: int, delta: ToolCallDelta) -> JsonObject:
        """Name a call in its first piece only, as clients that join pieces expect."""
        key = (number, delta.index)
        if key in self._named_calls:
            return {"index": delta.index, "function": {"arguments": delta.arguments_delta}}
        self._named_calls.add(key)
        function = {"name": delta.name, "arguments": delta.arguments_delta}
        return {"index": delta.index, "id": delta.call_id, "type": "function", "function": function}

    def _totals(self) -> JsonObject:
        usage = added([ending.usage for ending in self._endings.values()])
        return {"usage": usage_json(usage), "appliance": self._receipt()}

    def _receipt(self) -> JsonObject:
        endings = [self._endings[number] for number in sorted(self._endings)]
        return receipt_json(self._order.requests[0], endings, self._order.ignored)

    def _chunk(self, choices: list[JsonObject]) -> JsonObject:
        chunk: JsonObject = {
            "id": f"chatcmpl-{self._order.id}",
            "object": "chat.completion.chunk",
            "created": self._created_s,
            "model": self._model,
            "choices": choices,
        }
        if self._order.includes_usage:
            chunk["usage"] = None
        return chunk


def _chunk_choice(number: int, delta: Mapping[str, object], ending: str | None) -> JsonObject:
    return {"index": number, "delta": dict(delta), "logprobs": None, "finish_reason": ending}
