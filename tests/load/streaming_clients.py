"""Many clients that stream from a server at one time, and what they saw: lost or mixed streams, waits, memory.

Against a server that runs: `python -m tests.load.streaming_clients URL TOKEN --clients 50 --seconds 60`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
import psutil

WORDS = ("river", "copper", "violin", "harbour", "lantern", "meadow", "granite", "saffron")


@dataclass(kw_only=True)
class Seen:
    """What all clients saw together."""

    finished: dict[int, int] = field(default_factory=dict)
    ttft_s: list[float] = field(default_factory=list)
    tokens: int = 0
    told_to_wait: int = 0
    faults: list[str] = field(default_factory=list)

    def share(self, quantile: float) -> float:
        """Return a quantile of the waits for the first token."""
        ordered = sorted(self.ttft_s)
        return ordered[min(len(ordered) - 1, math.ceil(quantile * len(ordered)) - 1)] if ordered else math.nan


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One stream as it came."""

    text: str
    ids: frozenset[str]
    ttft_s: float
    tokens: int
    finish_reason: str | None
    is_whole: bool


async def stream(client: httpx.AsyncClient, body: dict[str, object]) -> Answer:
    """Ask once and read to the end."""
    texts: list[str] = []
    ids: set[str] = set()
    ttft_s, tokens, reason, is_whole = math.nan, 0, None, False
    started_s = time.perf_counter()
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            await response.aread()
            response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                is_whole = True
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                raise RuntimeError(chunk["error"]["message"])
            ids.add(chunk["id"])
            for choice in chunk["choices"]:
                text = choice["delta"].get("content", "")
                if text and math.isnan(ttft_s):
                    ttft_s = time.perf_counter() - started_s
                texts.append(text)
                reason = choice["finish_reason"] or reason
            tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
    return Answer(
        text="".join(texts),
        ids=frozenset(ids),
        ttft_s=ttft_s,
        tokens=tokens,
        finish_reason=reason,
        is_whole=is_whole,
    )


def request(number: int, turn: int, tokens: int) -> dict[str, object]:
    """Return what a client asks: prose, or JSON that must hold the client's own mark."""
    chance = random.Random(number * 1_000 + turn)
    topic = " ".join(chance.sample(WORDS, 3))
    body: dict[str, object] = {
        "messages": [{"role": "user", "content": f"Client {number}: tell me about {topic}."}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": tokens,
        "temperature": 0,
    }
    if turn % 2:
        schema = {
            "type": "object",
            "properties": {"mark": {"const": mark(number)}, "topic": {"enum": list(WORDS)}},
            "required": ["mark", "topic"],
            "additionalProperties": False,
        }
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "marked", "schema": schema}}
        body["max_tokens"] = 64
    return body


def mark(number: int) -> str:
    """Return what only the answers to one client may hold."""
    return f"<{number:03d}>"


async def client_loop(
    number: int, client: httpx.AsyncClient, seen: Seen, *, until_s: float, turns: int, tokens: int
) -> None:
    """Ask again and again until the time is up or the turns are done."""
    turn = 0
    while turn < turns and time.perf_counter() < until_s:
        try:
            answer = await stream(client, request(number, turn, tokens))
        except httpx.HTTPStatusError as exc:
            if exc.response.status_code != 429:
                seen.faults.append(f"client {number}: {exc.response.status_code} {exc.response.text[:200]}")
                return
            seen.told_to_wait += 1
            await asyncio.sleep(min(float(exc.response.headers["retry-after"]), 5.0))
            continue
        except Exception as exc:  # noqa: BLE001  whatever it is, the report names it
            seen.faults.append(f"client {number}: {type(exc).__name__}: {exc}")
            return
        seen.faults += faults_of(number, turn, answer)
        seen.ttft_s.append(answer.ttft_s)
        seen.tokens += answer.tokens
        seen.finished[number] = seen.finished.get(number, 0) + 1
        turn += 1


def faults_of(number: int, turn: int, answer: Answer) -> list[str]:
    """Return what is wrong with a stream."""
    faults: list[str] = []
    if not answer.is_whole or answer.finish_reason not in ("stop", "length"):
        faults.append(f"client {number}: the stream did not end as it should")
    if len(answer.ids) != 1:
        faults.append(f"client {number}: chunks of {len(answer.ids)} answers in one stream")
    if answer.tokens == 0 or not answer.text:
        faults.append(f"client {number}: no text came")
    if turn % 2 and json.loads(answer.text).get("mark") != mark(number):
        faults.append(f"client {number}: the answer is another client's: {answer.text[:80]}")
    return faults


async def run_clients(
    url: str,
    tokens_of_users: Sequence[str],
    *,
    clients: int,
    seconds: float = math.inf,
    turns: int = sys.maxsize,
    tokens: int = 32,
) -> Seen:
    """Let clients stream at one time; they share the users' tokens in turn."""
    seen = Seen()
    until_s = time.perf_counter() + seconds
    limits = httpx.Limits(max_connections=clients + 1, max_keepalive_connections=clients + 1)
    timeout = httpx.Timeout(600.0)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=timeout, trust_env=False) as shared:

        async def one(number: int) -> None:
            async with httpx.AsyncClient(
                base_url=url,
                headers={"authorization": f"Bearer {tokens_of_users[number % len(tokens_of_users)]}"},
                timeout=timeout,
                trust_env=False,
            ) as client:
                await client_loop(number, client, seen, until_s=until_s, turns=turns, tokens=tokens)

        assert (await shared.get("/health")).status_code == 200
        await asyncio.gather(*(one(number) for number in range(clients)))
    return seen


def resident_bytes(pid: int) -> int:
    """Return the memory of a process and its children."""
    process = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


def main() -> None:
    """Measure a server that runs."""
    options = argparse.ArgumentParser()
    options.add_argument("url")
    options.add_argument("token", nargs="+")
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--tokens", type=int, default=32)
    options.add_argument("--pid", type=int)
    given = options.parse_args()
    samples: list[int] = []

    async def measure() -> Seen:
        async def watch() -> None:
            while given.pid:
                samples.append(resident_bytes(given.pid))
                await asyncio.sleep(1.0)

        watching = asyncio.create_task(watch())
        try:
            return await run_clients(
                given.url, given.token, clients=given.clients, seconds=given.seconds, tokens=given.tokens
            )
        finally:
            watching.cancel()

    started_s = time.perf_counter()
    seen = asyncio.run(measure())
    wall_s = time.perf_counter() - started_s
    counts = [seen.finished.get(number, 0) for number in range(given.clients)]
    report = {
        "clients": given.clients,
        "wall_s": round(wall_s, 1),
        "streams": len(seen.ttft_s),
        "faults": seen.faults,
        "told_to_wait": seen.told_to_wait,
        "ttft_p50_s": round(seen.share(0.5), 3),
        "ttft_p95_s": round(seen.share(0.95), 3),
        "ttft_max_s": round(seen.share(1.0), 3),
        "output_throughput": round(seen.tokens / wall_s, 1),
        "streams_per_client": [min(counts), max(counts)],
        "rss_mib_by_quarter": [round(samples[(len(samples) - 1) * n // 4] / 2**20) for n in range(5)]
        if samples
        else [],
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
