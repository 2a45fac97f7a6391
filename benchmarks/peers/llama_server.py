"""Starts llama-server and streams answers from it with a client that costs next to nothing.

The client is written on a socket because it shares the machine with the server it measures: a general HTTP client
takes CPU time from the server and would make the engine look better than it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal

from benchmarks.metrics import RequestTrace
from benchmarks.peers.llama_bench import PeerFailedError
from benchmarks.peers.programs import PeerPrograms

_START_TIMEOUT_S = 120.0
_ANSWER_TIMEOUT_S = 300.0
_END_TIMEOUT_S = 10.0
_POLL_S = 0.1
_HOST = "127.0.0.1"

Endpoint = Literal["/completion", "/v1/chat/completions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """One streamed answer: its times, its text, and what the server says of its cache."""

    trace: RequestTrace
    text: str
    input_tokens: int
    cached_tokens: int


class LlamaServer:
    """A running llama-server on a free port of this machine."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @classmethod
    async def start(
        cls,
        programs: PeerPrograms,
        model_path: Path,
        *,
        threads: int,
        parallel: int,
        context_tokens: int,
        openmp: Mapping[str, str],
    ) -> LlamaServer:
        """Start it and wait until it is ready.

        Raises:
            PeerFailedError: it ended or did not become ready.
        """
        port = _free_port()
        options = [
            *("-m", str(model_path), "--host", _HOST, "--port", str(port), "--no-ui", "--offline"),
            *("-t", str(threads), "-np", str(parallel), "-c", str(context_tokens), "--kv-unified"),
        ]
        process = await asyncio.create_subprocess_exec(
            programs.path("llama-server"),
            *options,
            env=programs.environment(openmp),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        server = cls(process, port)
        try:
            await server.wait_until_ready()
        except BaseException:
            await server.stop()
            raise
        return server

    async def wait_until_ready(self) -> None:
        """Wait until the model is loaded.

        Raises:
            PeerFailedError: it ended or did not become ready.
        """
        for _ in range(round(_START_TIMEOUT_S / _POLL_S)):
            if await self._is_ready():
                return
            await asyncio.sleep(_POLL_S)
        raise PeerFailedError(f"llama-server was not ready after {_START_TIMEOUT_S:g} s")

    async def stop(self) -> None:
        """End it: gently, then by force."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _END_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def complete(self, prompt: list[int], *, output_tokens: int) -> ServerAnswer:
        """Continue a prompt given as tokens, greedily, by exactly this many tokens, with nothing reused."""
        body = {
            "prompt": prompt,
            "n_predict": output_tokens,
            "ignore_eos": True,
            "temperature": 0.0,
            "samplers": ["temperature"],
            "cache_prompt": False,
            "stream": True,
        }
        return await self._answer("/completion", body)

    async def chat(
        self,
        messages: list[dict[str, str]],
        *,
        output_tokens: int,
        schema: Mapping[str, object] | None = None,
    ) -> ServerAnswer:
        """Answer a conversation greedily, by at most this many tokens; as JSON under a schema if there is one."""
        body: dict[str, object] = {
            "messages": messages,
            "max_tokens": output_tokens,
            "temperature": 0.0,
            "samplers": ["temperature"],
            "cache_prompt": True,
            "stream": True,
            "timings_per_token": False,
        }
        if schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema},
            }
        return await self._answer("/v1/chat/completions", body)

    async def _answer(self, endpoint: Endpoint, body: dict[str, object]) -> ServerAnswer:
        sent_s = perf_counter()
        times: list[float] = []
        pieces: list[str] = []
        last: dict[str, object] = {}
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            async for data in stream_events(self.port, endpoint, body):
                received_s = perf_counter()
                event = json.loads(data)
                if piece := text_of(event):
                    times.append(received_s)
                    pieces.append(piece)
                if "timings" in event:
                    last = event
        ended_s = perf_counter()
        timings = last.get("timings")
        if not isinstance(timings, dict):
            raise PeerFailedError("llama-server ended a stream without its timings")
        cached = int(timings.get("cache_n", 0))
        return ServerAnswer(
            trace=RequestTrace(
                sent_s=sent_s,
                chunk_times_s=tuple(times),
                ended_s=ended_s,
                output_tokens=int(timings["predicted_n"]),
            ),
            text="".join(pieces),
            input_tokens=cached + int(timings["prompt_n"]),
            cached_tokens=cached,
        )

    async def _is_ready(self) -> bool:
        if self._process.returncode is not None:
            raise PeerFailedError(f"llama-server ended with exit code {self._process.returncode}")
        try:
            reader, writer = await asyncio.open_connection(_HOST, self.port)
        except OSError:
            return False
        with contextlib.closing(writer):
            writer.write(f"GET /health HTTP/1.1\r\nHost: {_HOST}\r\nConnection: close\r\n\r\n".encode())
            return b" 200 " in await reader.readline()


def text_of(event: Mapping[str, object]) -> str:
    """The piece of text in one event of either endpoint."""
    content = event.get("content")
    if isinstance(content, str):
        return content
    choices = event.get("choices")
    if isinstance(choices, list) and choices:
        piece = choices[0].get("delta", {}).get("content")
        return piece if isinstance(piece, str) else ""
    return ""


async def stream_events(port: int, endpoint: str, body: Mapping[str, object]) -> AsyncIterator[bytes]:
    """Post a request and yield the data of each server-sent event.

    Raises:
        PeerFailedError: the answer is not a stream of events.
    """
    reader, writer = await asyncio.open_connection(_HOST, port)
    with contextlib.closing(writer):
        payload = json.dumps(body).encode()
        head = (
            f"POST {endpoint} HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + payload)
        status = await reader.readline()
        headers = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in status:
            raise PeerFailedError(f"llama-server refused a request: {(await reader.read(400))!r}")
        if b"chunked" not in headers.lower():
            raise PeerFailedError("llama-server did not stream its answer")
        pending = b""
        async for chunk in _chunks(reader):
            *events, pending = (pending + chunk).split(b"\n\n")
            for event in events:
                data = event.removeprefix(b"data: ")
                if data != event and data != b"[DONE]":
                    yield data


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The chunks of an HTTP body in chunked transfer coding."""
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
        return port
