"""Constrained and free answers in one batch: is nothing mixed up, and what does the mixture cost?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from appliance.core.requests import GenerateRequest, TextFormat
from appliance.engine.client import Engine
from appliance.gateway.judge import judge_of
from benchmarks.peers.engine_side import EngineAnswer, ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Rates are output tokens of all sequences over the time from the first request to the last end."""

    constrained: int
    free: int
    valid: int
    same_as_alone: int
    mixed_tokens: int
    mixed_s: float
    all_free_tokens: int
    all_free_s: float

    @property
    def line(self) -> str:
        """Say it in a line."""
        mixed, all_free = self.mixed_tokens / self.mixed_s, self.all_free_tokens / self.all_free_s
        return (
            f"together: {self.constrained} constrained beside {self.free} free, {self.valid} valid under their own "
            f"schema, {self.same_as_alone} of all as when asked alone; {mixed:.1f} tokens/s, {mixed / all_free:.2f} "
            f"times {self.constrained + self.free} free ones"
        )


async def measure_together(engine: Engine, constrained: Sequence[GenerateRequest], tokens: int) -> Together:
    """Ask all at once, each beside its free twin, then as many free ones; each has an owner of its own."""
    free = [
        replace(
            one,
            output=TextFormat(),
            owner=f"{one.owner} free",
            sampling=replace(one.sampling, max_tokens=tokens),
        )
        for one in constrained
    ]
    alone = [await ask(engine, request) for request in (*constrained, *free)]
    mixed, mixed_s = await _at_once(engine, [*constrained, *free])
    twins = [replace(one, owner=f"{one.owner} twin") for one in free]
    for request in twins:
        await ask(engine, request)
    all_free, all_free_s = await _at_once(engine, [*twins, *free])
    valid = 0
    for request, answer in zip(constrained, mixed, strict=False):
        judge = await judge_of(request)
        valid += judge.admitted is not None and not judge.admitted.problems(answer.text)
    return Together(
        constrained=len(constrained),
        free=len(free),
        valid=valid,
        same_as_alone=sum(one.text == other.text for one, other in zip(alone, mixed, strict=True)),
        mixed_tokens=_tokens(mixed),
        mixed_s=mixed_s,
        all_free_tokens=_tokens(all_free),
        all_free_s=all_free_s,
    )


async def _at_once(engine: Engine, requests: Sequence[GenerateRequest]) -> tuple[list[EngineAnswer], float]:
    began_s = perf_counter()
    answers = await asyncio.gather(*(ask(engine, request) for request in requests))
    return answers, perf_counter() - began_s


def _tokens(answers: Sequence[EngineAnswer]) -> int:
    return sum(answer.usage.output_tokens for answer in answers)
