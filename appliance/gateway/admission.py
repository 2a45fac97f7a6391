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
from appliance.core.requests import Deadline, GenerateRequest
from appliance.core.routing import Candidate
from appliance.gateway.rates import Rate
from appliance.gateway.seats import Seats
from appliance.gateway.waiting import Ask, FairQueue, Waiter
from appliance.telemetry import Metrics

_CHARACTERS_PER_TOKEN = 4
_USUAL_ANSWER_TOKENS = 512
_LEAST_RETRY_S = 1.0
_HOLD_WEIGHT = 1 / 8

_is_seated: ContextVar[bool] = ContextVar("appliance_is_seated", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Leave to run, until it is left. `waited_s` is the time in the queue."""

    ask: Ask
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
        self._seats = Seats(limits)
        self._usual_hold_s = _LEAST_RETRY_S
        overall, of_owner, now_s = limits.overall, limits.of_owner, clock.now_s()
        self._requests = Rate(
            "requests", overall.requests_per_minute, lambda owner: of_owner(owner).requests_per_minute, now_s
        )
        self._tokens = Rate(
            "tokens", overall.tokens_per_minute, lambda owner: of_owner(owner).tokens_per_minute, now_s
        )

    async def seat(self, request: GenerateRequest, candidate: Candidate, started_s: float) -> Seat:
        """Wait for leave to run on a candidate.

        Raises:
            RateLimitedError: a rate or the queue is full; raised at once, with when to come back.
            DeadlineError: a deadline of the request ran out in the queue.
        """
        tokens, asked_s = expected_tokens(request), self._clock.now_s()
        is_large = tokens > self._limits.small_request_tokens
        # One model may be asked by several names.
        model = candidate.digest or candidate.model
        ask = Ask(owner=request.owner, model=model, tokens=tokens, is_large=is_large)
        if _is_seated.get():
            return Seat(ask=ask, taken_s=asked_s, is_shared=True)
        self._seats.declare(model, candidate.parallel)
        self._check_rates(ask)
        has_seat = not self._queue.is_behind(ask) and self._seats.has_seat(ask)
        if not has_seat:
            self._check_queue(ask)
        self._count_in(ask)
        if has_seat:
            self._take_seat(ask)
            return Seat(ask=ask, taken_s=asked_s)
        await self._wait(ask, request.deadline, started_s)
        now_s = self._clock.now_s()
        return Seat(ask=ask, taken_s=now_s, waited_s=now_s - asked_s)

    def leave(self, seat: Seat, used_tokens: int) -> None:
        """Free a seat; the tokens really used replace the estimate."""
        if seat.is_shared:
            return
        self._usual_hold_s += (self._clock.now_s() - seat.taken_s - self._usual_hold_s) * _HOLD_WEIGHT
        self._free_seat(seat.ask, used_tokens)

    def _check_rates(self, ask: Ask) -> None:
        now_s = self._clock.now_s()
        for rate, amount in ((self._requests, 1), (self._tokens, ask.tokens)):
            wait_s, limit = rate.fullest(ask.owner, amount, now_s)
            if wait_s > 0:
                raise _refusal(f"the limit of {limit} {rate.what} a minute is reached", wait_s)

    def _check_queue(self, ask: Ask) -> None:
        waiting, own = len(self._queue), self._queue.length_of(ask.owner)
        # Everybody who waits now will have had a seat by then.
        retry_after_s = self._usual_hold_s * ceil((waiting + 1) / self._seats.capacity(ask.model))
        if waiting >= self._limits.overall.queue:
            message = f"{waiting} requests are waiting and no more may"
            raise _refusal(message, max(_LEAST_RETRY_S, retry_after_s))
        if own >= self._limits.of_owner(ask.owner).queue:
            message = f"{own} of your requests are waiting and no more may"
            raise _refusal(message, max(_LEAST_RETRY_S, retry_after_s))

    async def _wait(self, ask: Ask, deadline: Deadline, started_s: float) -> None:
        waiter = Waiter(ask, asyncio.get_running_loop().create_future())
        self._queue.add(waiter)
        self._show_numbers()
        try:
            await self._until_seated(waiter, deadline, started_s)
        except BaseException:
            self._withdraw(waiter)
            raise

    async def _until_seated(self, waiter: Waiter, deadline: Deadline, started_s: float) -> None:
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
        if waiter.seated.done():
            self._free_seat(waiter.ask, 0)
            return
        self._queue.remove(waiter)
        self._tokens.take(waiter.ask.owner, -waiter.ask.tokens, self._clock.now_s())
        self._count_out(waiter.ask.owner)
        self._show_numbers()

    def _seat_waiting(self) -> None:
        while (waiter := self._queue.take_next(self._seats.has_seat)) is not None:
            self._take_seat(waiter.ask)
            waiter.seated.set_result(None)
        self._show_numbers()

    def _count_in(self, ask: Ask) -> None:
        now_s = self._clock.now_s()
        self._requests.take(ask.owner, 1, now_s)
        self._tokens.take(ask.owner, ask.tokens, now_s)
        self._queue.begin(ask.owner)

    def _count_out(self, owner: str) -> None:
        if not self._seats.running_of(owner) and not self._queue.length_of(owner):
            self._queue.end(owner)

    def _take_seat(self, ask: Ask) -> None:
        self._queue.charge(ask)
        self._seats.take(ask)
        self._show_numbers()

    def _free_seat(self, ask: Ask, used_tokens: int) -> None:
        self._queue.settle(ask, used_tokens)
        self._tokens.take(ask.owner, used_tokens - ask.tokens, self._clock.now_s())
        self._seats.free(ask)
        self._count_out(ask.owner)
        self._seat_waiting()

    def _show_numbers(self) -> None:
        self._metrics.queue_depth.set(value=len(self._queue))
        self._metrics.running.set(value=self._seats.running)


def _refusal(message: str, retry_after_s: float) -> RateLimitedError:
    retry_after_s = ceil(retry_after_s * 10) / 10
    return RateLimitedError(
        message, retry_after_s=retry_after_s, hint=f"come back in {retry_after_s:g} s, or raise [limits]"
    )
