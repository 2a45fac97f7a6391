"""Holds the load client against a server of known times, and its workloads against a tokenizer."""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from appliance.core.clock import SystemClock
from appliance.core.errors import ProviderUnavailableError
from benchmarks.answers import Answer, LoadRequest
from benchmarks.exact_text import CountTokens
from benchmarks.http_target import HttpTarget
from benchmarks.load_driver import run_closed
from benchmarks.load_workload import make_requests
from benchmarks.metrics import output_throughput
from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Metric

ALLOWED_S = 0.002
ALLOWED_SHARE = 0.02
FAST_TOKENS_PER_S = 5_000
BUSY_SHARE = 0.25
_START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTimes:
    """One check of times: so many answers of so many tokens, one after the other."""

    ttft_s: float
    itl_s: float
    tokens: int
    answers: int


CHECKS = (
    KnownTimes(ttft_s=0.05, itl_s=0.01, tokens=20, answers=15),
    KnownTimes(ttft_s=0.4, itl_s=0.025, tokens=20, answers=3),
)
_STREAMS, _STREAM_TOKENS = 20, 500
WORKLOAD_TOKENS = (*range(48, 64), 100, 128, 255, 256, 257, 512, 1000, 1024)


async def check_times(check: KnownTimes, recorder: Recorder) -> bool:
    """Measure a server of known times; whether every median is as near as is allowed."""
    began_s = perf_counter()
    doubts = recorder.doubts()
    name = f"ttft {check.ttft_s * 1000:g} ms, itl {check.itl_s * 1000:g} ms"
    recorder.step(name)
    with doubts.watching():
        async with mock_server(check.ttft_s, check.itl_s) as url, HttpTarget(url, "mock") as target:
            await target.answer(_request(0, 2))  # opens the connection
            answers = [await target.answer(_request(number, check.tokens)) for number in range(check.answers)]
    errors = errors_of(answers, check)
    is_right = all(is_allowed(error_s, expected_s) for error_s, expected_s in errors.values())
    recorder.record(
        name,
        configuration={"tokens": check.tokens, "answers": check.answers},
        metrics=[
            Metric(name=f"{metric}_error", unit="s", better="lower", samples=(error_s,))
            for metric, (error_s, _) in errors.items()
        ],
        began_s=began_s,
        facts={"verdict": verdict(doubts, is_right=is_right)},
        doubts=doubts.reasons(()),
    )
    recorder.advance(f"{name}: {verdict(doubts, is_right=is_right)}")
    return is_right


async def check_throughput(recorder: Recorder) -> bool:
    """Receive 5,000 tokens a second from many streams; whether none is lost and the client keeps up."""
    began_s = perf_counter()
    doubts = recorder.doubts()
    itl_s = _STREAMS / FAST_TOKENS_PER_S
    name = f"{FAST_TOKENS_PER_S} tokens a second"
    recorder.step(name)
    requests = [_request(number, _STREAM_TOKENS) for number in range(_STREAMS)]
    with doubts.watching():
        async with mock_server(itl_s, itl_s, does_spin=False) as url, HttpTarget(url, "mock") as target:
            run = await run_closed(target, requests, concurrency=_STREAMS, clock=SystemClock())
    received = sum(len(answer.trace.chunk_times_s) for answer in run.answers)
    rate = output_throughput([answer.trace for answer in run.answers])
    is_right = received == _STREAMS * _STREAM_TOKENS and rate >= FAST_TOKENS_PER_S * (1 - ALLOWED_SHARE)
    recorder.record(
        name,
        configuration={"streams": _STREAMS, "tokens": _STREAM_TOKENS},
        metrics=[Metric(name="output_throughput", unit="tokens/s", better="higher", samples=(rate,))],
        began_s=began_s,
        facts={
            "received": received,
            "sent": _STREAMS * _STREAM_TOKENS,
            "verdict": verdict(doubts, is_right=is_right),
        },
        doubts=doubts.reasons(()),
    )
    recorder.advance(f"{name}: {verdict(doubts, is_right=is_right)}")
    return is_right


async def check_workload(model: str, count_tokens: CountTokens, recorder: Recorder) -> bool:
    """Make prompts of many lengths twice; whether each has exactly the tokens asked for, and is the same again."""
    began_s = perf_counter()
    name = "prompts of exact lengths"
    recorder.step(name)
    sizes = [(tokens, 1) for tokens in WORKLOAD_TOKENS]
    requests, again = [
        await make_requests(sizes, seed=recorder.seed, count_tokens=count_tokens) for _ in range(2)
    ]
    counted = [await count_tokens(request.text) for request in requests]
    off = tuple(
        float(abs(tokens - request.input_tokens)) for tokens, request in zip(counted, requests, strict=True)
    )
    is_right = not any(off) and requests == again
    recorder.record(
        name,
        configuration={"model": model, "prompts": len(sizes)},
        metrics=[Metric(name="tokens_off", unit="tokens", better="lower", samples=off)],
        began_s=began_s,
        facts={"is_same_again": requests == again, "verdict": "right" if is_right else "too far off"},
    )
    recorder.advance(name)
    return is_right


def errors_of(answers: list[Answer], check: KnownTimes) -> Mapping[str, tuple[float, float]]:
    """By how many seconds each median is off, and what was to be measured."""
    e2el_s = check.ttft_s + (check.tokens - 1) * check.itl_s
    traces = [answer.trace for answer in answers]
    measured = {
        "ttft": (statistics.median(trace.ttft_s or 0.0 for trace in traces), check.ttft_s),
        "itl": (statistics.median(gap for trace in traces for gap in trace.itl_s), check.itl_s),
        "tpot": (statistics.median(trace.tpot_s or 0.0 for trace in traces), check.itl_s),
        "e2el": (statistics.median(trace.e2el_s for trace in traces), e2el_s),
    }
    return {name: (abs(found - expected), expected) for name, (found, expected) in measured.items()}


def verdict(doubts: Doubts, *, is_right: bool) -> str:
    """What a check shows; where others used much of the machine a miss shows nothing of the client."""
    if is_right:
        return "right"
    is_busy = any(use.foreign_share > BUSY_SHARE for use in doubts.uses)
    return "undecided, other programs used the processor" if is_busy else "too far off"


def is_allowed(error_s: float, expected_s: float) -> bool:
    """Whether an error is at most 2 ms or 2 %."""
    return error_s <= max(ALLOWED_S, ALLOWED_SHARE * expected_s)


@asynccontextmanager
async def mock_server(ttft_s: float, itl_s: float, *, does_spin: bool = True) -> AsyncIterator[str]:
    """A server of known times in a process of its own; yields its URL.

    Raises:
        ProviderUnavailableError: it did not start.
    """
    command = [sys.executable, "-m", "benchmarks.mock_server", "--ttft-s", str(ttft_s), "--itl-s", str(itl_s)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *([] if does_spin else ["--no-spin"]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        if not line.strip().isdigit():
            raise ProviderUnavailableError("the server of known times did not start")
        yield f"http://127.0.0.1:{int(line)}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _request(number: int, tokens: int) -> LoadRequest:
    return LoadRequest(number=number, text="time", input_tokens=7, output_tokens=tokens, key=str(number))
