"""A server of known times: `python -m benchmarks.mock_server` streams chat completions after a set time, at set gaps.

It writes its port to standard output and ends when its standard input closes. The last millisecond of each wait is
spent looking at the clock, because timers wake late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

_SPIN_S = 0.001
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MockTimes:
    """When chunks come: the first after `ttft_s`, each further one `itl_s` later."""

    ttft_s: float
    itl_s: float
    does_spin: bool = True


class MockServer:
    """Answers `POST /v1/chat/completions` with as many chunks as `max_tokens` asks for."""

    def __init__(self, times: MockTimes) -> None:
        self._times = times

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while body := await _read_body(reader):
                await self._answer(json.loads(body), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _answer(self, request: dict[str, object], writer: asyncio.StreamWriter) -> None:
        began_s = perf_counter()
        tokens = request.get("max_tokens", 16)
        assert isinstance(tokens, int)
        writer.write(_HEAD)
        for number in range(tokens):
            due_s = began_s + self._times.ttft_s + number * self._times.itl_s
            await self._wait_until(due_s)
            writer.write(_chunk(_content(f" w{number}")))
            await writer.drain()
        usage = {
            "prompt_tokens": 7,
            "completion_tokens": tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        writer.write(
            _chunk(_event({"choices": [], "usage": usage})) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        )
        await writer.drain()

    async def _wait_until(self, due_s: float) -> None:
        spin_s = _SPIN_S if self._times.does_spin else 0.0
        wait_s = due_s - perf_counter() - spin_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        while self._times.does_spin and perf_counter() < due_s:
            pass


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    """The body of the next request; empty at the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (
            int(line.partition(b":")[2])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        ),
        0,
    )
    return await reader.readexactly(length)


def _content(text: str) -> bytes:
    return _event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _run(times: MockTimes) -> None:
    server = await asyncio.start_server(MockServer(times).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ttft-s", type=float, required=True)
    parser.add_argument("--itl-s", type=float, required=True)
    parser.add_argument("--no-spin", action="store_true", help="for many streams at once")
    options = parser.parse_args(arguments)
    asyncio.run(_run(MockTimes(ttft_s=options.ttft_s, itl_s=options.itl_s, does_spin=not options.no_spin)))


if __name__ == "__main__":
    main()
