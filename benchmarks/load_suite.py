"""The suite `load`: a workload against a target, closed or open loop, as records with their doubts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from appliance.core.errors import InvalidRequestError, ProviderUnavailableError
from appliance.core.ports import Clock
from benchmarks.answer_checks import answer_doubts, answer_facts, count_outputs, warm_up, way_out
from benchmarks.answers import Answer, LoadRequest, Target
from benchmarks.load_driver import LoadRun, run_closed, run_open
from benchmarks.load_workload import Arrival, make_requests, poisson_times, read_trace
from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Scalar
from benchmarks.steady_state import (
    Limits,
    Window,
    closed_window,
    open_window,
    steadiness_doubts,
    window_metrics,
)

MOST_RUNNING = 1000


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


async def measure_load(plan: LoadPlan, target: Target, recorder: Recorder, clock: Clock) -> list[str]:
    """Run every level; each becomes a record as soon as it ended. Returns what could not be measured.

    Raises:
        ApplianceError: prompts cannot be made, or the first answer fails.
    """
    levels = _levels(plan)
    recorder.expect(sum(len(sizes) for _, sizes, _ in levels))
    await warm_up(plan.model, target, recorder)
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
        level.answers = await count_outputs(level.answers, target)
    except asyncio.CancelledError:
        _record_level(level, plan, target, recorder, "partial: interrupted")
        raise
    level.doubts.other += run.doubts()
    if not level.answers:
        raise InvalidRequestError(
            f"the time ended before a request of {level.name} was sent", hint="give a larger --budget"
        )
    if not any(answer.has_succeeded for answer in level.answers):
        raise ProviderUnavailableError(
            f"no request of {level.name} succeeded: {level.answers[0].failure}",
            hint=way_out(level.answers[0].failure),
        )
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
