"""Sends a workload: a closed loop keeps so many requests running, an open loop sends each at its time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from appliance.core.ports import Clock
from benchmarks.answers import Answer, LoadRequest, Target
from benchmarks.load_workload import Arrival

OnAnswer = Callable[[Answer], None]
_LATE_S = 0.005


@dataclass(slots=True, kw_only=True)
class LoadRun:
    """Every answer in the order in which they ended, and what the sender itself did wrong."""

    concurrency: int
    answers: list[Answer] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    held_back: int = 0

    def doubts(self) -> list[str]:
        """Say where the client did not send as it should have."""
        doubts = []
        late = [late_s for late_s in self.late_s if late_s > _LATE_S]
        if late:
            doubts.append(f"the client sent {len(late)} requests late, by up to {max(late) * 1000:.0f} ms")
        if self.held_back:
            doubts.append(
                f"{self.held_back} requests waited for one of {self.concurrency} places at the client"
            )
        return doubts


async def run_closed(
    target: Target,
    requests: Sequence[LoadRequest],
    *,
    concurrency: int,
    clock: Clock,
    limit_s: float = float("inf"),
    on_answer: OnAnswer = lambda _answer: None,
) -> LoadRun:
    """Keep `concurrency` requests running until all are answered; begin none after the limit."""
    run = LoadRun(concurrency=concurrency)
    waiting = iter(requests)
    began_s = clock.now_s()

    async def send_in_turn() -> None:
        for request in waiting:
            if clock.now_s() - began_s >= limit_s:
                return
            answer = await target.answer(request)
            run.answers.append(answer)
            on_answer(answer)

    with collector_at_rest():
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(requests))):
                group.create_task(send_in_turn())
    return run


async def run_open(
    target: Target,
    arrivals: Sequence[Arrival],
    *,
    clock: Clock,
    most_running: int,
    limit_s: float = float("inf"),
    on_answer: OnAnswer = lambda _answer: None,
) -> LoadRun:
    """Send each request at its time whether earlier ones are answered or not, up to `most_running` at once."""
    run = LoadRun(concurrency=most_running)
    places = asyncio.Semaphore(most_running)
    began_s = clock.now_s()

    async def send(request: LoadRequest) -> None:
        try:
            answer = await target.answer(request)
        finally:
            places.release()
        run.answers.append(answer)
        on_answer(answer)

    with collector_at_rest():
        async with asyncio.TaskGroup() as group:
            for arrival in arrivals:
                if arrival.at_s >= limit_s:
                    break
                wait_s = began_s + arrival.at_s - clock.now_s()
                if wait_s > 0:
                    await clock.sleep(wait_s)
                run.held_back += places.locked()
                await places.acquire()
                run.late_s.append(max(0.0, clock.now_s() - began_s - arrival.at_s))
                group.create_task(send(arrival.request))
    return run


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector from stopping the clock's readings in the block."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
