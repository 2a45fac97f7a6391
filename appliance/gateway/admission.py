"""Admission: limits of requests, tokens and concurrency, and a bounded queue that is fair between owners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import ceil

from appliance.config import Limits
from appliance.core.errors import DeadlineError, RateLimitedError
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.gateway.rates import Rate
from appliance.gateway.waiting import FairQueue, Waiter
from appliance.telemetry import Metrics

_CHARACTERS_PER_TOKEN = 4
_USUAL_ANSWER_TOKENS = 512
_LEAST_RETRY_S = 1.0
_HOLD_WEIGHT = 1 / 8

_is_seated: ContextVar[bool] = ContextVar("appliance_is_seated", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Leave to run, until it is left. `waited_s` is the time in the queue."""

    owner: str
    tokens: int
    is_large: bool
    taken_s: float
    waited_s: float = 0.0
    is_shared: bool = False


def expected_tokens(request: GenerateRequest) -> int:
    """Estimate prompt and answer by length; what was really used is settled when the seat is left."""
    characters = sum(len(message.text) for message in request.conversation.messages)
    answer_tokens = request.sampling.max_tokens
    if answer_tokens is None or answer_tokens > _USUAL_ANSWER_TOKENS:
        answer_tokens = _USUAL_ANSWER_TOKENS
    return characters // _CHARACTERS_PER_TOKEN + answer_tokens


@contextmanager
def sharing_the_seat() -> Iterator[None]:
    """Let requests that are made inside the block run on the seat of the request that makes them.

    A grader that asks a model would otherwise wait for a seat while it holds one.
    """
    token = _is_seated.set(True)
    try:
        yield
    finally:
        _is_seated.reset(token)


class Admission:
    """Gives seats. Rates are checked on arrival; without a free seat a request waits in the queue."""

    def __init__(self, limits: Limits, clock: Clock, metrics: Metrics) -> None:
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._queue = FairQueue()
        self._running: dict[str, int] = {}
        self._running_count = 0
        self._large_count = 0
        self._usual_hold_s = _LEAST_RETRY_S
        overall, now_s = limits.overall, clock.now_s()
        self._requests = Rate(
            "requests",
            overall.requests_per_minute,
            lambda owner: limits.of_owner(owner).requests_per_minute,
            now_s,
        )
        self._tokens = Rate(
            "tokens", overall.tokens_per_minute, lambda owner: limits.of_owner(owner).tokens_per_minute, now_s
        )

    async def seat(self, request: GenerateRequest, started_s: float) -> Seat:
        """Wait for leave to run.

        Raises:
            RateLimitedError: a rate or the queue is full; raised at once, with when to come back.
            DeadlineError: a deadline of the request ran out in the queue.
        """
        owner, tokens, asked_s = request.owner, expected_tokens(request), self._clock.now_s()
        if _is_seated.get():
            return Seat(owner=owner, tokens=tokens, is_large=False, taken_s=asked_s, is_shared=True)
        is_large = tokens > self._limits.small_request_tokens
        self._check_rates(owner, tokens)
        has_seat = not self._queue.length_of(owner) and self._has_seat(owner, is_large=is_large)
        if not has_seat:
            self._check_queue(owner)
        self._requests.take(owner, 1, asked_s)
        self._tokens.take(owner, tokens, asked_s)
        self._begin(owner)
        if has_seat:
            self._take_seat(owner, tokens, is_large=is_large)
        else:
            await self._wait(request, tokens, started_s, is_large=is_large)
        now_s = self._clock.now_s()
        return Seat(owner=owner, tokens=tokens, is_large=is_large, taken_s=now_s, waited_s=now_s - asked_s)

    def leave(self, seat: Seat, used_tokens: int) -> None:
        """Free a seat; the tokens really used replace the estimate."""
        if seat.is_shared:
            return
        now_s, surplus = self._clock.now_s(), used_tokens - seat.tokens
        self._queue.charge(seat.owner, surplus)
        self._tokens.take(seat.owner, surplus, now_s)
        self._usual_hold_s += (now_s - seat.taken_s - self._usual_hold_s) * _HOLD_WEIGHT
        self._running[seat.owner] -= 1
        self._running_count -= 1
        self._large_count -= seat.is_large
        self._forget_if_idle(seat.owner)
        self._seat_waiting()

    def _has_seat(self, owner: str, *, is_large: bool) -> bool:
        seats = self._limits.of_owner(owner).concurrency
        if self._is_full() or 0 < seats <= self._running.get(owner, 0):
            return False
        return not is_large or self._may_be_large()

    def _is_full(self) -> bool:
        return 0 < self._limits.overall.concurrency <= self._running_count

    def _may_be_large(self) -> bool:
        """Whether a large request may take a seat: the last one is kept for small ones."""
        seats = self._limits.overall.concurrency
        return seats <= 1 or self._large_count < seats - 1

    def _check_rates(self, owner: str, tokens: int) -> None:
        now_s = self._clock.now_s()
        for rate, amount in ((self._requests, 1), (self._tokens, tokens)):
            wait_s, limit = rate.fullest(owner, amount, now_s)
            if wait_s > 0:
                raise _refusal(f"the limit of {limit} {rate.what} a minute is reached", wait_s)

    def _check_queue(self, owner: str) -> None:
        own = self._queue.length_of(owner)
        if len(self._queue) >= self._limits.overall.queue:
            raise _refusal(f"{len(self._queue)} requests are waiting and no more may", self._retry_after_s())
        if own >= self._limits.of_owner(owner).queue:
            raise _refusal(f"{own} of your requests are waiting and no more may", self._retry_after_s())

    def _retry_after_s(self) -> float:
        """Estimate when everybody who waits now will have had a seat."""
        seats = max(self._limits.overall.concurrency, 1)
        return max(_LEAST_RETRY_S, self._usual_hold_s * ceil((len(self._queue) + 1) / seats))

    async def _wait(self, request: GenerateRequest, tokens: int, started_s: float, *, is_large: bool) -> None:
        waiter = Waiter(request.owner, tokens, is_large, asyncio.get_running_loop().create_future())
        self._queue.add(waiter)
        self._seat_waiting()
        try:
            await self._until_seated(waiter, request, started_s)
        except BaseException:
            self._withdraw(waiter)
            raise

    async def _until_seated(self, waiter: Waiter, request: GenerateRequest, started_s: float) -> None:
        deadline = request.deadline
        stated = ((deadline.total_s, "total"), (deadline.first_token_s, "first_token"))
        limits = [(limit_s, phase) for limit_s, phase in stated if limit_s is not None]
        if not limits:
            # `wait` leaves the future alone when the caller is cancelled; awaiting it would cancel it.
            await asyncio.wait((waiter.seated,))
            return
        limit_s, phase = min(limits)
        left_s = started_s + limit_s - self._clock.now_s()
        timer = asyncio.ensure_future(self._clock.sleep(max(left_s, 0.0)))
        try:
            await asyncio.wait((waiter.seated, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        if not waiter.seated.done():
            raise DeadlineError(phase=phase, limit_s=limit_s)

    def _withdraw(self, waiter: Waiter) -> None:
        """Leave the queue, or the seat that was given in the same moment."""
        now_s = self._clock.now_s()
        if waiter.seated.done():
            seat = Seat(owner=waiter.owner, tokens=waiter.tokens, is_large=waiter.is_large, taken_s=now_s)
            self.leave(seat, 0)
            return
        self._queue.remove(waiter)
        self._tokens.take(waiter.owner, -waiter.tokens, now_s)
        self._forget_if_idle(waiter.owner)
        self._show_numbers()

    def _seat_waiting(self) -> None:
        while not self._is_full():
            waiter = self._queue.take_next(full_owners=self._full_owners(), may_be_large=self._may_be_large())
            if waiter is None:
                break
            self._take_seat(waiter.owner, waiter.tokens, is_large=waiter.is_large)
            waiter.seated.set_result(None)
        self._show_numbers()

    def _full_owners(self) -> frozenset[str]:
        return frozenset(
            owner
            for owner, running in self._running.items()
            if 0 < self._limits.of_owner(owner).concurrency <= running
        )

    def _begin(self, owner: str) -> None:
        if owner not in self._running:
            self._running[owner] = 0
            self._queue.begin(owner)

    def _take_seat(self, owner: str, tokens: int, *, is_large: bool) -> None:
        self._queue.charge(owner, tokens)
        self._running[owner] += 1
        self._running_count += 1
        self._large_count += is_large
        self._show_numbers()

    def _forget_if_idle(self, owner: str) -> None:
        if not self._running[owner] and not self._queue.length_of(owner):
            del self._running[owner]
            self._queue.end(owner)

    def _show_numbers(self) -> None:
        self._metrics.queue_depth.set(value=len(self._queue))
        self._metrics.running.set(value=self._running_count)


def _refusal(message: str, retry_after_s: float) -> RateLimitedError:
    retry_after_s = ceil(retry_after_s * 10) / 10
    return RateLimitedError(
        message, retry_after_s=retry_after_s, hint=f"come back in {retry_after_s:g} s, or raise [limits]"
    )
