"""Constrained and free answers in one batch: is nothing mixed up, and what does the mixture cost?"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from appliance.core.requests import GenerateRequest, TextFormat
from appliance.engine.client import Engine
from appliance.gateway.judge import judge_of
from benchmarks.peers.engine_side import EngineAnswer, ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """One round: output tokens of all sequences, and the time from the first request to the last end, both ways."""

    valid: int
    same_as_alone: int
    mixed_tokens: int
    mixed_s: float
    all_free_tokens: int
    all_free_s: float

    @property
    def mixed_rate(self) -> float:
        """Tokens a second of constrained and free ones together."""
        return self.mixed_tokens / self.mixed_s

    @property
    def all_free_rate(self) -> float:
        """Tokens a second of as many free ones."""
        return self.all_free_tokens / self.all_free_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """So many constrained answers beside as many free ones, round by round."""

    constrained: int
    free: int
    rounds: tuple[Mixture, ...]

    @property
    def line(self) -> str:
        """Say it in a line."""
        count, sequences = len(self.rounds), self.constrained + self.free
        valid = sum(one.valid for one in self.rounds)
        same = sum(one.same_as_alone for one in self.rounds)
        rate = statistics.median(one.mixed_rate for one in self.rounds)
        ratio = statistics.median(one.mixed_rate / one.all_free_rate for one in self.rounds)
        return (
            f"together: {self.constrained} constrained beside {self.free} free, {count} rounds, "
            f"{valid} of {count * self.constrained} valid under their own schema, {same} of {count * sequences} as "
            f"when asked alone; {rate:.1f} tokens/s, {ratio:.2f} times {sequences} free ones"
        )


async def measure_together(
    engine: Engine,
    constrained: Sequence[GenerateRequest],
    tokens: int,
    rounds: int,
    say: Callable[[str], None],
    must_end: Callable[[], bool] = lambda: False,
) -> Together | None:
    """Ask all at once, each beside a free one to the same prompt, and as many free ones, by turns.

    All are asked alone first: that fills the KV cache, and says what is to come out. Free ones that take the place of
    constrained ones have their owners, and with them their prompts in the cache. Where it must end, whole rounds are
    kept; without one it is None.
    """
    free = [_freed(one, f"{one.owner} free", tokens) for one in constrained]
    mixed, all_free = [*constrained, *free], [*(_freed(one, one.owner, tokens) for one in constrained), *free]
    alone = []
    for number, request in enumerate(mixed):
        if must_end():
            return None
        say(f"asked alone, {number + 1} of {len(mixed)}")
        alone.append(await ask(engine, request))
    found = []
    for number in range(rounds):
        if must_end():
            break
        say(f"constrained and free together, round {number + 1} of {rounds}")
        found.append(await _mix(engine, mixed, all_free, alone, is_mixed_first=number % 2 == 0))
    return Together(constrained=len(constrained), free=len(free), rounds=tuple(found)) if found else None


def _freed(request: GenerateRequest, owner: str, tokens: int) -> GenerateRequest:
    sampling = replace(request.sampling, max_tokens=tokens)
    return replace(request, output=TextFormat(), owner=owner, sampling=sampling)


async def _mix(
    engine: Engine,
    mixed: Sequence[GenerateRequest],
    all_free: Sequence[GenerateRequest],
    alone: Sequence[EngineAnswer],
    *,
    is_mixed_first: bool,
) -> Mixture:
    if is_mixed_first:
        answers, mixed_s = await _at_once(engine, mixed)
        free_answers, all_free_s = await _at_once(engine, all_free)
    else:
        free_answers, all_free_s = await _at_once(engine, all_free)
        answers, mixed_s = await _at_once(engine, mixed)
    return Mixture(
        valid=await _valid(mixed, answers),
        same_as_alone=sum(one.text == other.text for one, other in zip(alone, answers, strict=True)),
        mixed_tokens=_tokens(answers),
        mixed_s=mixed_s,
        all_free_tokens=_tokens(free_answers),
        all_free_s=all_free_s,
    )


async def _valid(requests: Sequence[GenerateRequest], answers: Sequence[EngineAnswer]) -> int:
    """How many answers follow the schema of their own request; free ones have none."""
    valid = 0
    for request, answer in zip(requests, answers, strict=True):
        judge = await judge_of(request)
        valid += judge.admitted is not None and not judge.admitted.problems(answer.text)
    return valid


async def _at_once(engine: Engine, requests: Sequence[GenerateRequest]) -> tuple[list[EngineAnswer], float]:
    began_s = perf_counter()
    answers = await asyncio.gather(*(ask(engine, request) for request in requests))
    return answers, perf_counter() - began_s


def _tokens(answers: Sequence[EngineAnswer]) -> int:
    return sum(answer.usage.output_tokens for answer in answers)
