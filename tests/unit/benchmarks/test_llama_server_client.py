"""The client that streams from llama-server, against a server that writes what it is told."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.peers.llama_bench import PeerFailedError, parse_rate
from benchmarks.peers.llama_server import LlamaServer, stream_events, text_of
from benchmarks.peers.programs import PeerPrograms

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(parts: Sequence[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])


@asynccontextmanager
async def serving(reply: bytes, requests: list[bytes]) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        requests.append(await reader.readexactly(length))
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def events_of(reply: bytes, requests: list[bytes]) -> list[bytes]:
    async with serving(reply, requests) as port:
        return [data async for data in stream_events(port, "/completion", {"prompt": [1, 2]})]


async def test_events_are_found_however_the_body_is_cut_into_chunks() -> None:
    body = b'data: {"content":"a"}\n\ndata: {"content":"b\\n\\nc"}\n\ndata: [DONE]\n\n'
    requests: list[bytes] = []

    for size in (1, 7, len(body)):
        parts = [body[start : start + size] for start in range(0, len(body), size)]
        events = await events_of(HEAD + chunked(parts), requests)
        assert [text_of(json.loads(event)) for event in events] == ["a", "b\n\nc"]

    assert json.loads(requests[0]) == {"prompt": [1, 2]}


async def test_a_refused_request_is_an_error_that_quotes_the_server() -> None:
    reply = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 20\r\n\r\n{"error":"too long"}'

    with pytest.raises(PeerFailedError, match="too long"):
        await events_of(reply, [])


async def test_a_server_that_is_told_to_end_while_it_loads_does_not_go_on(tmp_path: Path) -> None:
    program, told = tmp_path / "llama-server", tmp_path / "pid"
    os.mkfifo(told)
    program.write_text(f"#!/bin/sh\necho $$ > {told}\nexec sleep 60\n")
    program.chmod(0o755)
    programs = PeerPrograms(folder=tmp_path, library_folders=(), shares_libraries=False, flags="")
    starting = asyncio.create_task(
        LlamaServer.start(programs, tmp_path, threads=1, parallel=1, context_tokens=256, openmp={})
    )
    pid = int(await asyncio.to_thread(told.read_text))

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_answer_that_is_no_stream_is_an_error() -> None:
    with pytest.raises(PeerFailedError, match="did not stream"):
        await events_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", [])


def test_text_is_read_from_events_of_both_endpoints() -> None:
    assert text_of({"content": "x"}) == "x"
    assert text_of({"choices": [{"delta": {"content": "y"}}]}) == "y"
    assert text_of({"choices": [{"delta": {"role": "assistant", "content": None}}]}) == ""
    assert text_of({"choices": [], "timings": {}}) == ""


def test_the_rate_of_a_single_test_is_read_from_llama_bench() -> None:
    assert parse_rate(b'[{"n_gen": 128, "samples_ts": [61.25]}]') == 61.25


@pytest.mark.parametrize("output", [b"", b"[]", b"[{}]", b'[{"samples_ts": [1, 2]}]', b"[1]"])
def test_anything_else_from_llama_bench_is_an_error(output: bytes) -> None:
    with pytest.raises(PeerFailedError, match="unexpected"):
        parse_rate(output)
