"""The suites `load` and `latency`: a workload against a target, as records with their doubts."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Literal

from appliance.core.errors import InvalidRequestError, ProviderUnavailableError
from appliance.core.ports import Clock
from benchmarks.answers import Answer, LoadRequest, Target
from benchmarks.load_driver import LoadRun, run_closed, run_open
from benchmarks.load_workload import Arrival, make_requests, poisson_times, read_trace
from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Scalar
from benchmarks.steady_state import (
    Limits,
    Window,
    closed_window,
    latency_metrics,
    open_window,
    steadiness_doubts,
    window_metrics,
)

State = Literal["cold", "warm", "cached"]
MOST_RUNNING = 1000
_NOTED_CACHED_SHARE = 0.1
_CACHED_SHARE = 0.5
_GROUPED = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A load: levels of concurrency, or of Poisson arrivals a second, or one trace; `requests` for each level."""

    model: str
    input_tokens: int
    output_tokens: int
    requests: int
    concurrencies: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    trace: Path | None = None
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    limit_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPlan:
    """One request at a time: every state, input length and output length, `rounds` times in turn."""

    model: str
    states: tuple[State, ...]
    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    rounds: int
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    limit_s: float = float("inf")


Unload = Callable[[], Awaitable[None]]


async def measure_load(plan: LoadPlan, target: Target, recorder: Recorder, clock: Clock) -> list[str]:
    """Run every level; each becomes a record as soon as it ended. Returns what could not be measured.

    Raises:
        ApplianceError: prompts cannot be made, or the first answer fails.
    """
    levels = _levels(plan)
    recorder.expect(sum(len(sizes) for _, sizes, _ in levels))
    await _warm_up(plan.model, target, recorder)
    began_s = perf_counter()
    missing = []
    first = 0
    for number, (kind, sizes, value) in enumerate(levels):
        name = f"{kind} {value}"
        left_s = plan.limit_s - (perf_counter() - began_s)
        if left_s <= 0:
            missing.append(f"{name}: the time was used up")
            continue
        recorder.step(f"{name}: making prompts of exactly the lengths asked for")
        requests = await make_requests(
            sizes, seed=recorder.seed + 1000 * number, count_tokens=target.count_tokens, salt=recorder.run
        )
        requests = [replace(request, number=request.number + first) for request in requests]
        first += len(requests)
        await _run_level(plan, target, recorder, clock, kind, value, requests, left_s)
    return missing


def _levels(plan: LoadPlan) -> list[tuple[str, list[tuple[int, int]], Scalar]]:
    sizes = [(plan.input_tokens, plan.output_tokens)] * plan.requests
    levels: list[tuple[str, list[tuple[int, int]], Scalar]] = []
    levels += [("concurrency", sizes, concurrency) for concurrency in plan.concurrencies]
    levels += [("rate", sizes, rate) for rate in plan.rates]
    if plan.trace is not None:
        lines = read_trace(plan.trace)
        levels.append(("trace", [(line.input_tokens, line.output_tokens) for line in lines], plan.trace.name))
    if not levels:
        raise InvalidRequestError("no load is stated", hint="give --concurrency, --rate or --trace")
    return levels


async def _warm_up(model: str, target: Target, recorder: Recorder) -> None:
    """Load the model and make sure that the target answers at all."""
    recorder.step(f"{model}: waiting for a first answer, which is not counted")
    answer = await target.answer(
        LoadRequest(number=-1, text="Say hello.", input_tokens=0, output_tokens=4, key="warm-up")
    )
    if answer.failure:
        is_token = answer.failure.startswith(("HTTP 401", "HTTP 403"))
        raise ProviderUnavailableError(
            f"{target.name} does not answer: {answer.failure}",
            hint="name the environment variable that holds the server's token: --token-env NAME"
            if is_token
            else "check the URL and the model",
        )


async def _run_level(
    plan: LoadPlan,
    target: Target,
    recorder: Recorder,
    clock: Clock,
    kind: str,
    value: Scalar,
    requests: Sequence[LoadRequest],
    limit_s: float,
) -> None:
    level = _Level(kind, value, recorder.doubts(), perf_counter(), len(requests))

    def heard(answer: Answer) -> None:
        level.answers.append(answer)
        ttft_s = answer.trace.ttft_s
        figure = None if ttft_s is None else ttft_s * 1000
        # Others are being answered; drawing a plot now would delay the reading of their chunks.
        recorder.advance(f"{level.name}, ttft", figure=figure, unit="ms", is_idle=False)

    try:
        with level.doubts.watching():
            run = await _send(plan, target, recorder, clock, kind, value, requests, limit_s, heard)
    except asyncio.CancelledError:
        _record_level(level, plan, target, recorder, "partial: interrupted")
        raise
    level.doubts.other += run.doubts()
    if not any(answer.has_succeeded for answer in level.answers):
        failure = level.answers[0].failure if level.answers else "none was sent in time"
        raise ProviderUnavailableError(f"no request of {level.name} succeeded: {failure}")
    is_whole = len(level.answers) == len(requests)
    _record_level(level, plan, target, recorder, "" if is_whole else "partial: the time was used up")


@dataclass(slots=True)
class _Level:
    kind: str
    value: Scalar
    doubts: Doubts
    began_s: float
    wanted: int
    answers: list[Answer] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.value}"

    def window(self) -> Window:
        if self.kind == "concurrency":
            return closed_window(self.answers, int(self.value or 1))
        return open_window(self.answers)


def _record_level(level: _Level, plan: LoadPlan, target: Target, recorder: Recorder, partial: str) -> None:
    """Record what was answered; `partial` says why it is not all that was wanted."""
    answers = level.answers
    if not any(answer.has_succeeded for answer in answers):
        return
    window = level.window()
    if partial:
        partial = f"{partial} after {len(answers)} of {level.wanted} requests"
        level.doubts.other.append(partial)
    level.doubts.other += answer_doubts(answers, is_cached=False) + steadiness_doubts(answers, window)
    kind, value = level.kind, level.value
    recorder.record(
        level.name,
        configuration={
            "model": plan.model,
            "target": target.name,
            "prefix": "warm",
            kind: value,
            "requests": plan.requests if kind != "trace" else level.wanted,
            "input_tokens": plan.input_tokens if kind != "trace" else None,
            "output_tokens": plan.output_tokens if kind != "trace" else None,
            **_limits(plan.limits),
            **plan.settings,
        },
        metrics=window_metrics(answers, window, plan.limits),
        began_s=level.began_s,
        facts={
            **answer_facts(answers),
            "window_s": window.length_s,
            "is_steady": window.is_steady,
            "partial": partial,
        },
        doubts=level.doubts.reasons(()),
    )


async def _send(
    plan: LoadPlan,
    target: Target,
    recorder: Recorder,
    clock: Clock,
    kind: str,
    value: Scalar,
    requests: Sequence[LoadRequest],
    limit_s: float,
    heard: Callable[[Answer], None],
) -> LoadRun:
    if kind == "concurrency":
        return await run_closed(
            target, requests, concurrency=int(value or 1), clock=clock, limit_s=limit_s, on_answer=heard
        )
    if kind == "rate":
        times_s = poisson_times(float(value or 0), len(requests), seed=recorder.seed)
    else:
        assert plan.trace is not None
        times_s = [line.at_s for line in read_trace(plan.trace)]
    arrivals = [Arrival(at_s=at_s, request=request) for at_s, request in zip(times_s, requests, strict=True)]
    return await run_open(
        target, arrivals, clock=clock, most_running=MOST_RUNNING, limit_s=limit_s, on_answer=heard
    )


async def measure_latency(
    plan: LatencyPlan, target: Target, recorder: Recorder, unload: Unload | None
) -> list[str]:
    """Measure every cell of the grid, one request at a time, in turn. Returns what could not be measured.

    Cold: the model is not loaded. Warm: it is, and the prompt begins like none before. Cached: the very prompt was
    answered just before. Each is a record of its own.

    Raises:
        ApplianceError: a prompt cannot be made, or the target cannot be brought into a state.
    """
    if "cold" in plan.states and unload is None:
        raise InvalidRequestError(
            "a server's model cannot be unloaded from here, so a cold start cannot be measured",
            hint="leave --url out to measure a model of this appliance, or ask for --states warm,cached",
        )
    cells = [
        _Cell(state, inputs, outputs, recorder.doubts())
        for state in plan.states
        for inputs in plan.input_tokens
        for outputs in plan.output_tokens
    ]
    recorder.expect(len(cells) * plan.rounds)
    await _warm_up(plan.model, target, recorder)
    began_s = perf_counter()
    try:
        for number in range(plan.rounds):
            for cell in cells if number % 2 == 0 else list(reversed(cells)):
                is_over = perf_counter() - began_s > plan.limit_s
                if is_over and any(one.answers for one in cells):
                    return _missing(plan, cells)
                await _measure_cell(cell, number, target, recorder, unload)
    finally:
        for cell in cells:
            _record_cell(cell, plan, target, recorder, began_s)
    return _missing(plan, cells)


def _missing(plan: LatencyPlan, cells: Sequence[_Cell]) -> list[str]:
    """What was not answered, and what the time was too short for."""
    missing = [
        f"{cell.name}: {cell.answers[0].failure}"
        for cell in cells
        if cell.answers and not any(answer.has_succeeded for answer in cell.answers)
    ]
    missing += [
        f"{cell.name}: the time was used up after {len(cell.answers)} of {plan.rounds} repetitions"
        for cell in cells
        if len(cell.answers) < plan.rounds
    ]
    return missing


@dataclass(slots=True)
class _Cell:
    state: State
    input_tokens: int
    output_tokens: int
    doubts: Doubts
    answers: list[Answer] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.state} {self.input_tokens} in, {self.output_tokens} out"


async def _measure_cell(
    cell: _Cell, number: int, target: Target, recorder: Recorder, unload: Unload | None
) -> None:
    seed = recorder.seed + 7919 * (number + 1)
    sized = f"{cell.state}-{cell.input_tokens}-{cell.output_tokens}"
    (request,) = await make_requests(
        [(cell.input_tokens, cell.output_tokens)],
        seed=hash_seed(f"{seed}-{sized}"),
        count_tokens=target.count_tokens,
        salt=recorder.run,
    )
    request = replace(request, key=f"{seed}-{sized}")
    if cell.state == "cached":
        before = await target.answer(replace(request, output_tokens=1))
        if before.failure:
            raise ProviderUnavailableError(f"{target.name} does not answer: {before.failure}")
    if cell.state == "cold":
        assert unload is not None
        await unload()
    with cell.doubts.watching():
        answer = await target.answer(request)
    cell.answers.append(answer)
    ttft_s = answer.trace.ttft_s
    recorder.advance(f"{cell.name}, ttft", figure=None if ttft_s is None else ttft_s * 1000, unit="ms")


def hash_seed(text: str) -> int:
    """A number of 31 bits that only the text decides."""
    import hashlib

    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def _record_cell(cell: _Cell, plan: LatencyPlan, target: Target, recorder: Recorder, began_s: float) -> None:
    good = [answer for answer in cell.answers if answer.has_succeeded]
    if not good:
        return
    metrics = latency_metrics(good)
    count = len(cell.answers)
    partial = [] if count == plan.rounds else [f"partial: {count} of {plan.rounds} repetitions"]
    recorder.record(
        cell.name,
        configuration={
            "model": plan.model,
            "target": target.name,
            "prefix": cell.state,
            "input_tokens": cell.input_tokens,
            "output_tokens": cell.output_tokens,
            **plan.settings,
        },
        metrics=metrics,
        began_s=began_s,
        facts=answer_facts(cell.answers),
        doubts=[
            *cell.doubts.reasons(()),
            *answer_doubts(cell.answers, is_cached=cell.state == "cached"),
            *partial,
        ],
    )


def answer_facts(answers: Sequence[Answer]) -> Mapping[str, Scalar]:
    """Counts that say whether what was sent and received is what was asked for."""
    failed = [answer for answer in answers if not answer.has_succeeded]
    good = [answer for answer in answers if answer.has_succeeded]
    cached = [answer.cached_tokens for answer in good if answer.cached_tokens is not None]
    return {
        "requests": len(answers),
        "failed": len(failed),
        "first_failure": failed[0].failure if failed else "",
        "prompts_off": len(_off(good)),
        "early_ends": sum(answer.trace.output_tokens < answer.request.output_tokens for answer in good),
        "cached_tokens": sum(cached) if cached else None,
        "input_tokens": sum(answer.input_tokens or 0 for answer in good),
        "output_tokens": sum(answer.trace.output_tokens for answer in good),
        "note": _grouping_note(good),
    }


def _grouping_note(good: Sequence[Answer]) -> str:
    """Warn where the gaps between chunks are not the times of tokens."""
    sizes = [size for answer in good if (size := answer.trace.tokens_per_burst) is not None]
    if not sizes or statistics.median(sizes) < _GROUPED:
        return ""
    return (
        f"about {statistics.median(sizes):.2g} tokens arrive with one write, so itl is no time of a token: "
        "tpot is that, and burst_gap is how long a reader sees nothing new"
    )


def answer_doubts(answers: Sequence[Answer], *, is_cached: bool) -> list[str]:
    """Say where answers were not what the test states."""
    good = [answer for answer in answers if answer.has_succeeded]
    facts = answer_facts(answers)
    doubts = []
    if facts["failed"]:
        doubts.append(f"{facts['failed']} of {len(answers)} requests failed: {facts['first_failure']}")
    if off := _off(good):
        doubts.append(
            f"the target counted other prompt lengths than asked for in {len(off)} requests, for instance "
            f"{off[0].input_tokens} for {off[0].request.input_tokens}"
        )
    if uncounted := sum(not answer.does_target_count for answer in good):
        doubts.append(
            f"the target counted no output tokens in {uncounted} answers: each chunk counts as one, which is too few "
            "where a chunk holds several"
        )
    if facts["early_ends"]:
        doubts.append(f"{facts['early_ends']} answers ended before the tokens asked for")
    return doubts + _cache_doubts(good, is_cached=is_cached)


def _cache_doubts(good: Sequence[Answer], *, is_cached: bool) -> list[str]:
    known = [answer for answer in good if answer.cached_tokens is not None and answer.input_tokens]
    if not known:
        return ["the target does not say how much of a prompt it had cached"] if good else []
    shares = [(answer.cached_tokens or 0) / (answer.input_tokens or 1) for answer in known]
    if is_cached and min(shares) < _CACHED_SHARE:
        return [f"the target had only {min(shares):.0%} of a repeated prompt cached"]
    if not is_cached and max(shares) > _NOTED_CACHED_SHARE:
        return [f"the target had up to {max(shares):.0%} of a new prompt cached, its template for instance"]
    return []


def _off(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.input_tokens not in (None, answer.request.input_tokens)]


def _limits(limits: Limits) -> dict[str, Scalar]:
    stated = {"ttft_limit_s": limits.ttft_s, "tpot_limit_s": limits.tpot_s, "e2el_limit_s": limits.e2el_s}
    return {name: value for name, value in stated.items() if value is not None}


def parse_limits(texts: Sequence[str]) -> Limits:
    """Read `ttft:500 tpot:50 e2el:3000`, in milliseconds.

    Raises:
        InvalidRequestError: a limit is not understood.
    """
    found: dict[str, float] = {}
    for part in " ".join(texts).replace(",", " ").split():
        name, separator, text = part.partition(":")
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if name not in ("ttft", "tpot", "e2el") or not separator or not 0 < value < 1e9:
            raise InvalidRequestError(
                f"{part!r} is no limit", hint="write ttft:500 tpot:50 e2el:3000, in milliseconds"
            )
        found[name] = value / 1000
    return Limits(ttft_s=found.get("ttft"), tpot_s=found.get("tpot"), e2el_s=found.get("e2el"))
