"""What one round does for each row: the engine and its peer one after the other, the first one alternating."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from appliance.core.messages import Message
from appliance.engine.client import Engine
from appliance.engine.params import EngineParams
from benchmarks.metrics import output_throughput
from benchmarks.peers.comparison import Pair
from benchmarks.peers.engine_side import EngineAnswer, EngineFailedError, ask
from benchmarks.peers.llama_bench import BenchRun, LlamaBench, PeerFailedError
from benchmarks.peers.llama_server import LlamaServer, ServerAnswer
from benchmarks.peers.workload import next_turn, request_of, sized_messages, wire_messages

PREFILL_TOKENS = 512
DECODE_TOKENS = 128
TOGETHER = 8
SHORT_PROMPT_TOKENS = 64
TOGETHER_OUTPUT_TOKENS = 64
CONVERSATION_TOKENS = 2000
ANSWER_TOKENS = 32
DELIVERIES = 12
QUESTION = "Which word of the story do you like best, and why?"

_CANDIDATES = 40

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model with everything that measures it. `server` is None where only llama-bench is compared.

    The start times are CPU seconds that llama-bench uses for one token: start, loading, and the context before it.
    """

    model: str
    engine: Engine
    bench: LlamaBench
    server: LlamaServer | None
    decode_messages: Sequence[Message]
    prefill_messages: Sequence[Message]
    together_messages: Sequence[Sequence[Message]]
    decode_start_cpu_s: float
    prefill_start_cpu_s: float


async def find_long_answers(engine: Engine, *, model: str, count: int) -> list[list[Message]]:
    """Prompts whose greedy answers are long enough for every measurement; they are tried `count` at a time.

    Raises:
        EngineFailedError: too few were found.
    """
    found: list[list[Message]] = []
    for first in range(0, _CANDIDATES, count):
        candidates = [
            await sized_messages(engine, model=model, tokens=SHORT_PROMPT_TOKENS, seed=f"long-{number}")
            for number in range(first, first + count)
        ]
        requests = [
            request_of(messages, model=model, owner="search", output_tokens=DECODE_TOKENS + 1)
            for messages in candidates
        ]
        async with fresh_owners(engine, "search"):
            answers = await asyncio.gather(*(ask(engine, request) for request in requests))
        found += [
            messages
            for messages, answer in zip(candidates, answers, strict=True)
            if answer.usage.output_tokens == DECODE_TOKENS + 1
        ]
        if len(found) >= count:
            return found[:count]
    raise EngineFailedError(
        f"only {len(found)} of {count} prompts have answers of {DECODE_TOKENS + 1} tokens"
    )


@asynccontextmanager
async def fresh_owners(engine: Engine, *owners: str) -> AsyncIterator[None]:
    """Forget what is kept for these owners at the end: kept cells slow the decoding of everyone else."""
    try:
        yield
    finally:
        for owner in owners:
            await engine.forget_owner(owner)


async def measure_decode(subject: Subject, round_number: int, *, ours_first: bool) -> list[Pair]:
    """Decode one sequence of 128 tokens after the first."""
    owner = f"decode-{round_number}"
    request = request_of(
        subject.decode_messages, model=subject.model, owner=owner, output_tokens=DECODE_TOKENS + 1
    )
    async with fresh_owners(subject.engine, owner):
        answer, run = await _in_turn(
            lambda: ask(subject.engine, request),
            lambda: _bench_decode(subject),
            ours_first=ours_first,
        )
    if answer.usage.output_tokens != DECODE_TOKENS + 1:
        raise EngineFailedError(f"the answer ended after {answer.usage.output_tokens} tokens")
    empty = await asyncio.to_thread(subject.bench.generate, DECODE_TOKENS)
    cpu_peer_s = run.cpu_s - subject.decode_start_cpu_s
    return [
        _pair(subject, "decode", round_number, answer.decode_rate_worker, run.tokens_per_s),
        _pair(subject, "decode_caller", round_number, answer.decode_rate_caller, run.tokens_per_s),
        _pair(subject, "decode_empty", round_number, answer.decode_rate_worker, empty.tokens_per_s),
        *_cpu_pair(
            subject,
            "decode_cpu",
            round_number,
            (DECODE_TOKENS, answer.decode_cpu_s),
            (DECODE_TOKENS - 1, cpu_peer_s),
        ),
    ]


async def _bench_decode(subject: Subject) -> BenchRun:
    return await asyncio.to_thread(subject.bench.generate, DECODE_TOKENS, depth_tokens=SHORT_PROMPT_TOKENS)


async def measure_prefill(subject: Subject, round_number: int, *, ours_first: bool) -> list[Pair]:
    """Prefill a prompt of 512 tokens of which nothing is kept."""
    owner = f"prefill-{round_number}"
    request = request_of(subject.prefill_messages, model=subject.model, owner=owner, output_tokens=2)
    async with fresh_owners(subject.engine, owner):
        answer, run = await _in_turn(
            lambda: ask(subject.engine, request),
            lambda: asyncio.to_thread(subject.bench.prompt, PREFILL_TOKENS),
            ours_first=ours_first,
        )
    if answer.usage.cached_tokens or answer.usage.input_tokens != PREFILL_TOKENS:
        raise EngineFailedError(f"the prompt was not prefilled whole: {answer.usage}")
    ours = (PREFILL_TOKENS, answer.prefill_cpu_s)
    theirs = (
        2 * (PREFILL_TOKENS - 1),
        run.cpu_s - subject.prefill_start_cpu_s,
    )  # it warms up with the whole prompt
    return [
        _pair(subject, "prefill", round_number, answer.prefill_rate_worker, run.tokens_per_s),
        _pair(subject, "prefill_caller", round_number, answer.prefill_rate_caller, run.tokens_per_s),
        *_cpu_pair(subject, "prefill_cpu", round_number, ours, theirs),
    ]


async def measure_together(subject: Subject, round_number: int, *, ours_first: bool) -> list[Pair]:
    """Stream several answers at once; prompts are prefilled whole on both sides."""
    server = _server_of(subject)
    owners = [f"together-{round_number}-{index}" for index in range(len(subject.together_messages))]
    requests = [
        request_of(messages, model=subject.model, owner=owner, output_tokens=TOGETHER_OUTPUT_TOKENS)
        for owner, messages in zip(owners, subject.together_messages, strict=True)
    ]
    prompts = [await subject.engine.prompt_tokens(request) for request in requests]

    async def ask_engine() -> list[EngineAnswer]:
        return await asyncio.gather(*(ask(subject.engine, request) for request in requests))

    async def ask_server() -> list[ServerAnswer]:
        return await asyncio.gather(
            *(server.complete(prompt, output_tokens=TOGETHER_OUTPUT_TOKENS) for prompt in prompts)
        )

    async with fresh_owners(subject.engine, *owners):
        ours, theirs = await _in_turn(ask_engine, ask_server, ours_first=ours_first)
    return [
        _pair(
            subject,
            "together",
            round_number,
            output_throughput([answer.trace for answer in ours]),
            output_throughput([answer.trace for answer in theirs]),
            output_tokens=sum(answer.usage.output_tokens for answer in ours),
            output_tokens_peer=sum(answer.trace.output_tokens for answer in theirs),
            cached_tokens=sum(answer.usage.cached_tokens for answer in ours),
            cached_tokens_peer=sum(answer.cached_tokens for answer in theirs),
            equal_texts=sum(own.text == other.text for own, other in zip(ours, theirs, strict=True)),
        )
    ]


async def measure_second_turn(subject: Subject, round_number: int, *, ours_first: bool) -> list[Pair]:
    """Ask a second question in a conversation of about 2,000 tokens that both sides have just answered in.

    Each side goes on with its own answer, as its users would; the answers may differ by rounding. The conversation is
    one to which the starter model has an answer: to some it says nothing, and then there is no first token.
    """
    server = _server_of(subject)
    first = await sized_messages(
        subject.engine,
        model=subject.model,
        tokens=CONVERSATION_TOKENS,
        seed="conversation-1",
        closing="Tell this story in two sentences.",
    )
    owner = f"conversation-{round_number}"
    async with fresh_owners(subject.engine, owner, f"{owner}-beside"):
        request = request_of(first, model=subject.model, owner=owner, output_tokens=ANSWER_TOKENS)
        answered, answered_peer = await _in_turn(
            lambda: ask(subject.engine, request),
            lambda: server.chat(wire_messages(first), output_tokens=ANSWER_TOKENS),
            ours_first=ours_first,
        )
        again = request_of(
            next_turn(first, answered.text, QUESTION),
            model=subject.model,
            owner=owner,
            output_tokens=ANSWER_TOKENS,
        )
        again_peer = wire_messages(next_turn(first, answered_peer.text, QUESTION))
        ours, theirs = await _in_turn(
            lambda: ask(subject.engine, again),
            lambda: server.chat(again_peer, output_tokens=ANSWER_TOKENS),
            ours_first=ours_first,
        )
        beside = await _decode_beside_kept(subject, round_number, owner=f"{owner}-beside")
    turn = _pair(
        subject,
        "second_turn",
        round_number,
        ours.trace.ttft_s or 0.0,
        theirs.trace.ttft_s or 0.0,
        input_tokens=ours.usage.input_tokens,
        input_tokens_peer=theirs.input_tokens,
        computed_tokens=ours.usage.input_tokens - ours.usage.cached_tokens,
        computed_tokens_peer=theirs.input_tokens - theirs.cached_tokens,
    )
    return [turn, beside]


async def _decode_beside_kept(subject: Subject, round_number: int, *, owner: str) -> Pair:
    """Decode again while the conversation is kept: attention passes over its cells too."""
    request = request_of(
        subject.decode_messages, model=subject.model, owner=owner, output_tokens=DECODE_TOKENS + 1
    )
    kept_tokens = (await subject.engine.stats()).kept_tokens
    answer = await ask(subject.engine, request)
    run = await _bench_decode(subject)
    return _pair(
        subject,
        "decode_kept",
        round_number,
        answer.decode_rate_worker,
        run.tokens_per_s,
        kept_tokens=kept_tokens,
    )


async def measure_restart(subject: Subject, round_number: int) -> list[Pair]:
    """Ask a new worker, close it, and ask the next one the same with the prefix saved by the first.

    Every round has workers and a folder of its own, so the same conversation is cold again each time. It is one to
    which the starter model has an answer: to some it says nothing, and then there is no first token.
    """
    with tempfile.TemporaryDirectory() as folder:
        params = replace(subject.engine.params, prefix_dir=Path(folder))
        messages = await sized_messages(
            subject.engine, model=subject.model, tokens=CONVERSATION_TOKENS, seed="restart-1"
        )
        request = request_of(messages, model=subject.model, owner="restart", output_tokens=2)
        async with open_engine(params) as engine:
            cold = await ask(engine, request)
        async with open_engine(params) as engine:
            restored = await ask(engine, request)
    return [
        _pair(
            subject,
            "restart",
            round_number,
            restored.trace.ttft_s or 0.0,
            cold.trace.ttft_s or 0.0,
            cached_tokens=restored.usage.cached_tokens,
            cached_tokens_cold=cold.usage.cached_tokens,
            equal_texts=float(restored.text == cold.text),
        )
    ]


async def measure_delivery(subject: Subject, round_number: int) -> list[Pair]:
    """Ask a dozen short questions; the round's figure is the median way of the first text to the caller."""
    owner = f"delivery-{round_number}"
    request = request_of(subject.decode_messages, model=subject.model, owner=owner, output_tokens=4)
    async with fresh_owners(subject.engine, owner):
        lags = [(await ask(subject.engine, request)).first_delta_lag_s for _ in range(DELIVERIES)]
    return [
        Pair(
            row="delivery",
            model=subject.model,
            round_number=round_number,
            ours=statistics.median(lags),
            theirs=None,
            details={"worst_s": max(lags)},
        )
    ]


@asynccontextmanager
async def open_engine(params: EngineParams) -> AsyncIterator[Engine]:
    """A started engine that is closed at the end."""
    engine = Engine(params)
    try:
        await engine.start()
        yield engine
    finally:
        await engine.close()


async def _in_turn(
    ours: Callable[[], Awaitable[Ours]], theirs: Callable[[], Awaitable[Theirs]], *, ours_first: bool
) -> tuple[Ours, Theirs]:
    """Run both, never at the same time."""
    if ours_first:
        own = await ours()
        return own, await theirs()
    other = await theirs()
    return await ours(), other


def _server_of(subject: Subject) -> LlamaServer:
    if subject.server is None:
        raise PeerFailedError(f"no llama-server was started for {subject.model}")
    return subject.server


def _pair(
    subject: Subject, row: str, round_number: int, ours: float, theirs: float, **details: float
) -> Pair:
    return Pair(
        row=row, model=subject.model, round_number=round_number, ours=ours, theirs=theirs, details=details
    )


def _cpu_pair(
    subject: Subject, row: str, round_number: int, ours: tuple[int, float], theirs: tuple[int, float]
) -> list[Pair]:
    """Tokens a CPU second from tokens and seconds; nothing where a clock was too coarse."""
    (tokens, cpu_s), (tokens_peer, cpu_peer_s) = ours, theirs
    if cpu_s <= 0.0 or cpu_peer_s <= 0.0:
        return []
    return [_pair(subject, row, round_number, tokens / cpu_s, tokens_peer / cpu_peer_s)]
