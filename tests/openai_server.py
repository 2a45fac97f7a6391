"""A small HTTP server on loopback that answers as a test says, byte by byte, and one that plays scripts."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from appliance.core.clock import SystemClock
from appliance.core.errors import Failure
from appliance.core.events import (
    Completed,
    Failed,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import GenerateRequest, SamplingParams, ToolSpec
from appliance.providers.script import ScriptedModel
from appliance.providers.scripted import ScriptedProvider

Json = dict[str, object]


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json


Answer = Callable[[Received], AsyncIterator[bytes]]


@dataclass
class RunningServer:
    """Where a server listens and what it was asked."""

    port: int = 0
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        return [request.path for request in self.received]


@asynccontextmanager
async def running(answer: Answer) -> AsyncIterator[RunningServer]:
    """Serve until the block ends. What `answer` yields goes out as it is; then the connection closes."""
    state = RunningServer()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_serve(state, answer, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 24)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _serve(
    state: RunningServer, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        request = await _read(reader)
        state.received.append(request)
        # Reading on tells when the client goes away.
        gone = asyncio.ensure_future(reader.read(1))
        sending = asyncio.ensure_future(_send(answer, request, writer))
        await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        for task in (gone, sending):
            task.cancel()
        await asyncio.gather(gone, sending, return_exceptions=True)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _send(answer: Answer, request: Received, writer: asyncio.StreamWriter) -> None:
    pieces = answer(request)
    try:
        async for piece in pieces:
            writer.write(piece)
            await writer.drain()
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.splitlines()
    method, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, json.loads(body) if body else {})


def head(status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """The head of an answer that ends with the connection."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def json_answer(content: object, status: int = 200, **headers: str) -> bytes:
    """A whole answer of JSON."""
    return head(status, **headers) + json.dumps(content).encode()


def stream_head() -> bytes:
    """The head of an event stream."""
    return head(kind="text/event-stream")


def chunk(delta: Json | None = None, finish: str | None = None, **fields: object) -> bytes:
    """One event of a stream of chat completion chunks."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    content = {"object": "chat.completion.chunk", "choices": [choice], **fields}
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


def usage_chunk(prompt: int, completion: int, cached: int = 0) -> bytes:
    """The last chunk, with the tokens."""
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def listing(*names: str, owned_by: str = "someone", **facts: object) -> bytes:
    """The answer to `GET /v1/models`."""
    data = [{"id": name, "object": "model", "owned_by": owned_by, **facts} for name in names]
    return json_answer({"object": "list", "data": data})


class ScriptedServer:
    """Plays scripts over HTTP, in the dialect of vLLM, with prefill progress and split at random bytes."""

    def __init__(self, *scripts: ScriptedModel) -> None:
        self._scripts = {script.name: script for script in scripts}
        self._provider = ScriptedProvider(scripts, SystemClock())
        self._random = random.Random(7)

    async def answer(self, request: Received) -> AsyncIterator[bytes]:
        """Answer a request."""
        if request.path == "/v1/models":
            yield self._models()
            return
        script = self._scripts[str(request.body["model"])]
        asked = _request_of(request.body)
        if request.path == "/tokenize":
            yield json_answer({"count": await self._provider.count_tokens(asked)})
            return
        async with aclosing(self._provider.stream(asked)) as events:
            async for piece in self._written(events, script, is_json="response_format" in request.body):
                yield piece

    def _models(self) -> bytes:
        data = [
            {
                "id": script.name,
                "owned_by": "vllm",
                "max_model_len": script.context_window,
                "digest": script.digest,
            }
            for script in self._scripts.values()
        ]
        return json_answer({"object": "list", "data": data})

    async def _written(
        self, events: AsyncIterator[StreamEvent], script: ScriptedModel, *, is_json: bool
    ) -> AsyncIterator[bytes]:
        first = await anext(events)
        if isinstance(first, Failed):
            yield _refusal(first.failure)
            return
        yield stream_head()
        held: list[str] = []
        for event in [first]:
            for piece in self._split(_chunks_of(event)):
                yield piece
        async for event in events:
            if is_json and isinstance(event, TextDelta):
                held.append(event.text)
                continue
            if isinstance(event, Completed) and held:
                yield chunk({"content": _as_json("".join(held))})
            for piece in self._split(_chunks_of(event)):
                yield piece

    def _split(self, data: bytes) -> list[bytes]:
        cut = self._random.randrange(len(data) + 1)
        return [piece for piece in (data[:cut], data[cut:]) if piece]


def _as_json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(text)
    return text


def _refusal(failure: Failure) -> bytes:
    if failure.kind == "context_overflow":
        details = {
            "n_prompt_tokens": failure.details["prompt_tokens"],
            "n_ctx": failure.details["context_window"],
        }
        return json_answer(
            {"error": {"type": "exceed_context_size_error", "message": "too long", **details}}, 400
        )
    return json_answer({"error": {"message": failure.message}}, 500)


def _chunks_of(event: StreamEvent) -> bytes:
    match event:
        case PrefillProgress():
            counts = {
                "total": event.total_tokens,
                "processed": event.processed_tokens,
                "cache": event.cached_tokens,
            }
            return chunk(prompt_progress=counts)
        case TextDelta():
            return chunk({"content": event.text})
        case ReasoningDelta():
            return chunk({"reasoning_content": event.text})
        case ToolCallDelta():
            function = {"name": event.name, "arguments": event.arguments_delta}
            return chunk({"tool_calls": [{"index": event.index, "id": event.call_id, "function": function}]})
        case Completed():
            usage = event.usage
            counts = usage_chunk(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
            return chunk(finish=event.finish_reason) + counts + DONE
        case Failed():
            return b"data: " + json.dumps({"error": {"message": event.failure.message}}).encode() + b"\n\n"
        case _:
            return b": nothing to say yet\n\n"


def _request_of(body: Json) -> GenerateRequest:
    bias = body.get("logit_bias") or {}
    stop, max_tokens = body.get("stop") or [], body.get("max_tokens")
    assert isinstance(bias, dict)
    assert isinstance(stop, list)
    is_open = body.get("continue_final_message") is True and body.get("add_generation_prompt") is False
    return GenerateRequest(
        conversation=Conversation(tuple(map(_message_of, _items(body, "messages"))), is_open=is_open),
        model=str(body["model"]),
        owner=str(body.get("cache_salt", "counting")),
        sampling=SamplingParams(
            temperature=0.0,
            stop=tuple(stop),
            max_tokens=max_tokens if isinstance(max_tokens, int) else None,
            logit_bias={int(token): float(value) for token, value in bias.items()},
        ),
        tools=tuple(map(_tool_of, _items(body, "tools"))),
        tool_choice="required" if body.get("tool_choice") == "required" else "auto",
    )


def _items(body: Json, key: str) -> list[Json]:
    items = body.get(key) or []
    assert isinstance(items, list)
    return items


def _tool_of(tool: Json) -> ToolSpec:
    function = tool["function"]
    assert isinstance(function, dict)
    return ToolSpec(name=function["name"], description="", parameters_json=json.dumps(function["parameters"]))


def _message_of(message: Json) -> Message:
    text = str(message["content"] or "")
    match message["role"]:
        case "system":
            return SystemMessage(text=text)
        case "user":
            return UserMessage(text=text)
        case "tool":
            return ToolMessage(call_id=str(message["tool_call_id"]), name="", text=text)
        case _:
            calls = [
                ToolCall(call_id=str(call["id"]), name="", arguments_json="")
                for call in _items(message, "tool_calls")
            ]
            return AssistantMessage(text=text, tool_calls=tuple(calls))


def always(*pieces: bytes, models: bytes | None = None) -> Answer:
    """Answer every request with these bytes, and the list of models with one model `tiny`."""
    return partial(_always, pieces, models or listing("tiny"))


async def _always(pieces: tuple[bytes, ...], models: bytes, request: Received) -> AsyncIterator[bytes]:
    if request.path == "/v1/models":
        yield models
        return
    if request.path in ("/api/version", "/props", "/tokenize"):
        yield json_answer({"error": {"message": "File Not Found"}}, 404)
        return
    for piece in pieces:
        yield piece


async def never(_: Received) -> AsyncIterator[bytes]:
    """Take the request and say nothing."""
    await asyncio.Event().wait()
    yield b""
