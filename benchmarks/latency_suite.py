"""The suite `latency`: one request at a time; cold, warm and cached prefixes kept apart."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal

from appliance.core.errors import InvalidRequestError, ProviderUnavailableError
from benchmarks.answer_checks import answer_doubts, answer_facts, count_outputs, warm_up
from benchmarks.answers import Answer, Target
from benchmarks.load_workload import make_requests
from benchmarks.recorder import Doubts, Recorder
from benchmarks.records import Scalar
from benchmarks.steady_state import latency_metrics

State = Literal["cold", "warm", "cached"]


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
    await warm_up(plan.model, target, recorder)
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
    cell.answers[-1:] = await count_outputs([answer], target)
    ttft_s = answer.trace.ttft_s
    recorder.advance(f"{cell.name}, ttft", figure=None if ttft_s is None else ttft_s * 1000, unit="ms")


def hash_seed(text: str) -> int:
    """A number of 31 bits that only the text decides."""
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
