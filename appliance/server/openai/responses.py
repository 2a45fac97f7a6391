"""`POST /v1/responses`, stateless: an answer as a list of items, whole or as named events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from appliance.core.events import Completed, Failed, PrefillProgress, TextDelta, ToolCallDelta
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import ToolCall
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateSuccess
from appliance.core.usage import FinishReason, Usage
from appliance.server.event_stream import EventStream, Frame, comment, frame
from appliance.server.merging import NumberedEvent
from appliance.server.openai.answering import answered, begun
from appliance.server.openai.answers import receipt_json
from appliance.server.openai.logprobs import token_logprobs
from appliance.server.openai.responses_request import LOGPROBS, response_request
from appliance.server.openai.responses_wire import IGNORED, ResponsesBody
from appliance.server.problems import problem_of_failure
from appliance.server.services import ChatCaller, ServicesOf
from appliance.server.wire import JsonObject, ignored_headers, stated_names

router = APIRouter(tags=["OpenAI"])


@router.post("/v1/responses")
async def create_response(
    body: ResponsesBody, request: Request, caller: ChatCaller, services: ServicesOf
) -> Response:
    """Answer; nothing of it is kept."""
    settings = services.appliance.settings
    asked = response_request(
        body, owner=caller.owner, model=services.model(body.model), usual=settings.default_sampling()
    )
    served = {"include"} if body.include == [LOGPROBS] else set()
    ignored = tuple(name for name in stated_names(body, IGNORED) if name not in served)
    headers = {"x-request-id": asked.request_id, **ignored_headers(ignored)}
    writing = _Writing(body=body, asked=asked, ignored=ignored)
    if body.stream:
        events = await begun(services, request, [asked])
        return EventStream(
            writing.frames(events), services.running, write_s=services.options.write_s, headers=headers
        )
    answer = (await answered(services, request, [asked]))[0]
    return JSONResponse(writing.whole(answer), headers=headers)


@dataclass(slots=True, kw_only=True)
class _Writing:
    """One response as it comes together; also the writer of its events."""

    body: ResponsesBody
    asked: GenerateRequest
    ignored: tuple[str, ...]
    created_s: int = field(default_factory=lambda: int(time.time()))
    sequence: int = 0
    text: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: dict[int, ToolCall] = field(default_factory=dict)

    def whole(self, answer: GenerateSuccess) -> JsonObject:
        """Return a whole response."""
        self.logprobs.extend(answer.logprobs)
        items = self._items(answer.message.text, answer.message.tool_calls)
        return self._response(
            _status(answer.finish_reason), items, answer.usage, answer, model=answer.model.name
        )

    async def frames(self, events: AsyncGenerator[NumberedEvent]) -> AsyncGenerator[Frame]:
        """Yield the events of a streamed response; a failure is the event `response.failed`."""
        yield self._event("response.created", response=self._response("in_progress", [], None, None))
        yield self._event("response.in_progress", response=self._response("in_progress", [], None, None))
        async with aclosing(events):
            async for _, event in events:
                match event:
                    case TextDelta():
                        for each in self._text_delta(event):
                            yield each
                    case ToolCallDelta():
                        for each in self._call_delta(event):
                            yield each
                    case PrefillProgress():
                        yield comment(f"prefill {event.processed_tokens}/{event.total_tokens}")
                    case Completed():
                        for each in self._ending(event):
                            yield each
                    case Failed():
                        yield self._failed(event)
                        return
                    case _:
                        pass

    def _text_delta(self, delta: TextDelta) -> list[Frame]:
        frames: list[Frame] = []
        if not self.text:
            item = {**self._message_item(""), "status": "in_progress", "content": []}
            frames.append(self._event("response.output_item.added", output_index=0, item=item))
            frames.append(self._text_event("response.content_part.added", part=_output_text("", ())))
        self.text.append(delta.text)
        self.logprobs.extend(delta.logprobs)
        logprobs = token_logprobs(delta.logprobs)
        frames.append(self._text_event("response.output_text.delta", delta=delta.text, logprobs=logprobs))
        return frames

    def _call_delta(self, delta: ToolCallDelta) -> list[Frame]:
        frames: list[Frame] = []
        if delta.index not in self.calls:
            call = ToolCall(call_id=delta.call_id, name=delta.name, arguments_json="")
            self.calls[delta.index] = call
            item = {**_call_item(call), "status": "in_progress"}
            frames.append(
                self._event("response.output_item.added", output_index=self._place(delta.index), item=item)
            )
        known = self.calls[delta.index]
        self.calls[delta.index] = ToolCall(
            call_id=known.call_id,
            name=known.name,
            arguments_json=known.arguments_json + delta.arguments_delta,
        )
        if delta.arguments_delta:
            frames.append(
                self._event(
                    "response.function_call_arguments.delta",
                    item_id=_call_item_id(known),
                    output_index=self._place(delta.index),
                    delta=delta.arguments_delta,
                )
            )
        return frames

    def _place(self, index: int) -> int:
        return index + bool(self.text)

    def _ending(self, ending: Completed) -> list[Frame]:
        text = "".join(self.text)
        calls = [self.calls[index] for index in sorted(self.calls)]
        items = self._items(text, calls)
        frames = self._text_done(text) if self.text else []
        for index in sorted(self.calls):
            frames += self._call_done(index)
        status = _status(ending.finish_reason)
        response = self._response(status, items, ending.usage, ending, model=ending.model.name)
        return [*frames, self._event(f"response.{status}", response=response)]

    def _text_done(self, text: str) -> list[Frame]:
        return [
            self._text_event("response.output_text.done", text=text, logprobs=token_logprobs(self.logprobs)),
            self._text_event("response.content_part.done", part=_output_text(text, self.logprobs)),
            self._event("response.output_item.done", output_index=0, item=self._message_item(text)),
        ]

    def _call_done(self, index: int) -> list[Frame]:
        call, place = self.calls[index], self._place(index)
        return [
            self._event(
                "response.function_call_arguments.done",
                item_id=_call_item_id(call),
                output_index=place,
                name=call.name,
                arguments=call.arguments_json,
            ),
            self._event("response.output_item.done", output_index=place, item=_call_item(call)),
        ]

    def _failed(self, failed: Failed) -> Frame:
        response = self._response("failed", [], failed.usage, None)
        problem = problem_of_failure(failed.failure)
        response["error"] = {"code": problem.code, "message": failed.failure.message}
        return self._event("response.failed", response=response)

    def _items(self, text: str, calls: Sequence[ToolCall]) -> list[JsonObject]:
        message = [self._message_item(text)] if text or not calls else []
        return [*message, *(_call_item(call) for call in calls)]

    def _message_item(self, text: str) -> JsonObject:
        return {
            "id": f"msg_{self.asked.request_id}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [_output_text(text, self.logprobs)],
        }

    def _text_event(self, kind: str, **values: object) -> Frame:
        item_id = f"msg_{self.asked.request_id}"
        return self._event(kind, item_id=item_id, output_index=0, content_index=0, **values)

    def _event(self, kind: str, **values: object) -> Frame:
        sequence, self.sequence = self.sequence, self.sequence + 1
        return frame({"type": kind, "sequence_number": sequence, **values}, event=kind)

    def _response(
        self,
        status: str,
        items: list[JsonObject],
        usage: Usage | None,
        ending: Completed | GenerateSuccess | None,
        *,
        model: str = "",
    ) -> JsonObject:
        body = self.body.model_dump(mode="json", by_alias=True, exclude_none=True)
        sampling = self.asked.sampling
        return {
            "id": f"resp_{self.asked.request_id}",
            "object": "response",
            "created_at": self.created_s,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": self.body.instructions,
            "max_output_tokens": self.body.max_output_tokens,
            "model": model or self.asked.model,
            "output": items,
            "parallel_tool_calls": self.asked.allows_several_calls,
            "previous_response_id": None,
            "store": False,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "text": body.get("text", {"format": {"type": "text"}}),
            "tools": body.get("tools", []),
            "tool_choice": body.get("tool_choice", "auto"),
            "truncation": "disabled",
            "metadata": self.body.metadata or {},
            "usage": None if usage is None else _usage_json(usage),
            "appliance": None if ending is None else receipt_json(self.asked, [ending], self.ignored),
        }


def _status(reason: FinishReason) -> str:
    return "incomplete" if reason == "length" else "completed"


def _output_text(text: str, logprobs: Sequence[TokenLogprob]) -> JsonObject:
    return {
        "type": "output_text",
        "text": text,
        "annotations": [],
        "logprobs": token_logprobs(logprobs),
    }


def _call_item_id(call: ToolCall) -> str:
    return f"fc_{call.call_id}"


def _call_item(call: ToolCall) -> JsonObject:
    return {
        "id": _call_item_id(call),
        "type": "function_call",
        "status": "completed",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments_json,
    }


def _usage_json(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
