"""`POST /v1/completions`: the older form. The prompt is continued as it stands, without a chat template."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.responses import Response

from appliance.config import Settings
from appliance.core.errors import error_of
from appliance.core.events import Completed, Failed, PrefillProgress, TextDelta
from appliance.core.logprobs import MOST_TOP_LOGPROBS
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateSuccess
from appliance.server.event_stream import DONE, EventStream, Frame, comment, frame
from appliance.server.merging import NumberedEvent
from appliance.server.openai.answering import answered, begun
from appliance.server.openai.answers import added, fingerprint, receipt_json, usage_json
from appliance.server.openai.chat_request import ChatOrder, several
from appliance.server.openai.chat_wire import SamplingWire, StreamOptions
from appliance.server.openai.logprobs import OlderLogprobs
from appliance.server.openai.sampling import deadline_of, sampling_of
from appliance.server.problems import refused
from appliance.server.services import ChatCaller, ServicesOf
from appliance.server.wire import JsonObject, ModelName, Text, ignored_headers, stated_names

router = APIRouter(tags=["OpenAI"])

_IGNORED = ("user",)
_MAX_PROMPTS = 16


class CompletionBody(SamplingWire):
    """The whole request. Prompts given as token ids are refused: they are of another vocabulary."""

    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=_MAX_PROMPTS)]
    model: ModelName | None = None
    n: Annotated[int, Field(ge=1, le=8)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    best_of: int | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_TOP_LOGPROBS)] | None = None
    suffix: Text | None = None
    user: str | None = None


@router.post("/v1/completions")
async def completion(
    body: CompletionBody, request: Request, caller: ChatCaller, services: ServicesOf
) -> Response:
    """Answer one or several prompts, whole or as a stream."""
    order = _order(body, services.model(body.model), caller.owner, services.appliance.settings)
    headers = {"x-request-id": order.id, **ignored_headers(order.ignored)}
    if order.is_streamed:
        events = await begun(services, request, order.requests)
        frames = _frames(order, events)
        return EventStream(frames, services.running, write_s=services.options.write_s, headers=headers)
    answers = await answered(services, request, order.requests)
    return JSONResponse(_completion_json(order, answers), headers=headers)


def _order(body: CompletionBody, model: str, owner: str, settings: Settings) -> ChatOrder:
    _refuse_unserved(body)
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    sampling = replace(
        sampling_of(settings.default_sampling(), body, max_tokens=body.max_tokens), top_logprobs=body.logprobs
    )
    requests = [
        request
        for prompt in prompts
        for request in several(
            GenerateRequest(
                conversation=Conversation.of(UserMessage(text=prompt)),
                model=model,
                sampling=sampling,
                deadline=deadline_of(body),
                owner=owner,
                is_raw=True,
            ),
            body.n or 1,
        )
    ]
    if len(requests) > _MAX_PROMPTS:
        raise refused(
            f"{len(requests)} answers are asked; at most {_MAX_PROMPTS} are given at once", param="n"
        )
    options = body.stream_options
    return ChatOrder(
        requests=tuple(requests),
        is_streamed=bool(body.stream),
        includes_usage=options is not None and bool(options.include_usage),
        ignored=stated_names(body, _IGNORED),
    )


def _refuse_unserved(body: CompletionBody) -> None:
    if body.echo:
        raise refused("the prompt is not repeated in the answer", param="echo", hint="leave it out")
    if body.suffix:
        raise refused("filling in before a suffix is not served", param="suffix")
    if body.best_of is not None and body.best_of > (body.n or 1):
        raise refused("answers are not compared here", param="best_of", hint="use n")
    if body.stream_options is not None and not body.stream:
        raise refused("stream_options needs stream", param="stream_options", code="invalid_value")


def _completion_json(order: ChatOrder, answers: list[GenerateSuccess]) -> JsonObject:
    return {
        "id": f"cmpl-{order.id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": answers[0].model.name,
        "choices": [
            {
                **_choice(number, answer.message.text, answer.finish_reason),
                "logprobs": OlderLogprobs(order.requests[number].sampling).json(answer.logprobs),
            }
            for number, answer in enumerate(answers)
        ],
        "usage": usage_json(added([answer.usage for answer in answers])),
        "system_fingerprint": fingerprint(answers[0]),
        "appliance": receipt_json(order.requests[0], answers, order.ignored),
    }


async def _frames(order: ChatOrder, events: AsyncGenerator[NumberedEvent]) -> AsyncGenerator[Frame]:
    endings: list[Completed] = []
    logprobs = [OlderLogprobs(request.sampling) for request in order.requests]
    chunk: JsonObject = {
        "id": f"cmpl-{order.id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": order.requests[0].model,
    }
    async with aclosing(events):
        async for number, event in events:
            match event:
                case TextDelta():
                    choice = _choice(number, event.text, None)
                    choice["logprobs"] = logprobs[number].json(event.logprobs)
                    yield frame({**chunk, "choices": [choice]})
                case PrefillProgress():
                    yield comment(f"prefill {event.processed_tokens}/{event.total_tokens}")
                case Completed():
                    endings.append(event)
                    yield frame({**chunk, "choices": [_choice(number, "", event.finish_reason)]})
                case Failed():
                    raise error_of(event.failure)
                case _:
                    pass
    if order.includes_usage:
        usage = usage_json(added([ending.usage for ending in endings]))
        receipt = receipt_json(order.requests[0], endings, order.ignored)
        yield frame({**chunk, "choices": [], "usage": usage, "appliance": receipt})
    yield DONE


def _choice(number: int, text: str, ending: str | None) -> JsonObject:
    return {"index": number, "text": text, "logprobs": None, "finish_reason": ending}
