"""Ask candidates until one begins to answer: the same one again after a wait, or the next one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from appliance.config import RetryPolicy
from appliance.core.events import Completed, Failed, ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta
from appliance.core.handling import AttemptRecord
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.gateway.adding import Spent
from appliance.gateway.attempt import Attempt
from appliance.gateway.backoff import BackOff
from appliance.gateway.router import Chosen, Plan
from appliance.telemetry import Metrics, Span, ending_attributes


@dataclass(frozen=True, slots=True)
class _Next:
    """The candidate to ask next and the wait before it."""

    position: int
    wait_s: float = 0.0


class Attempts:
    """The calls of one request. Nothing is asked again once a delta came: it would be said twice.

    A failure that the route falls back on goes to the next candidate at once; one that is retried is asked
    again after a wait that ends within the total deadline. Both are bounded by `max_attempts` together.
    """

    def __init__(
        self,
        plan: Plan,
        policy: RetryPolicy,
        backoff: BackOff,
        clock: Clock,
        *,
        started_s: float,
        span: Span,
        metrics: Metrics,
    ) -> None:
        self._plan = plan
        self._policy = policy
        self._backoff = backoff
        self._clock = clock
        self._started_s = started_s
        self._span = span
        self._metrics = metrics
        self._position = 0
        self._again_count = 0
        self._repetitions = 0
        self._records: list[AttemptRecord] = []

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """Every call so far, in order."""
        return tuple(self._records)

    @property
    def computed_tokens(self) -> int:
        """Tokens that were computed so far; what a cache held cost nothing."""
        usages = [record.usage for record in self._records]
        return sum(usage.input_tokens - usage.cached_tokens + usage.output_tokens for usage in usages)

    @property
    def can_escalate(self) -> bool:
        """Whether an answer that is refused may be asked of another candidate."""
        return self._plan.is_cascade and self._position + 1 < len(self._plan.chosen)

    @property
    def chosen(self) -> Chosen:
        """The candidate that is asked, or was asked last."""
        return self._plan.chosen[self._position]

    def escalate(self) -> None:
        """Go on with the next candidate."""
        assert self.can_escalate
        self._move_to(self._position + 1, "malformed_output")

    def refuse(self, message: str) -> None:
        """Note that the last answer was not what was asked for."""
        self._records[-1] = replace(self._records[-1], failure="malformed_output", message=message)
        self._metrics.validation_failures.add(*self._who())

    async def ask(self, told: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Yield the events of the attempt that begins to answer, or of the last one, ended by one terminal."""
        spent: Spent | None = None
        waited_s = 0.0
        while True:
            has_begun = False
            ending: Completed | Failed | None = None
            async with aclosing(self._attempt(told, waited_s)) as events:
                async for event in events:
                    if isinstance(event, Completed | Failed):
                        ending = event
                        continue
                    has_begun = has_begun or isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta)
                    yield event if spent is None else spent.added_to(event)
            assert ending is not None
            following = None if has_begun or isinstance(ending, Completed) else self._following(told, ending)
            if spent is not None:
                ending = spent.added_to_ending(ending)
            if following is None:
                yield ending
                return
            waited_s = await self._wait(following)
            spent = Spent.on(ending).waited(waited_s)

    async def _attempt(self, told: GenerateRequest, waited_s: float) -> AsyncGenerator[StreamEvent]:
        candidate = self.chosen.candidate
        request = told if told.model == candidate.model else replace(told, model=candidate.model)
        asked_s = self._clock.now_s() if self._records else None
        attempt = Attempt(
            self.chosen.provider, request, self._clock, started_s=self._started_s, asked_s=asked_s
        )
        attributes = {"gen_ai.provider.name": candidate.provider, "gen_ai.request.model": candidate.model}
        with self._span.child("attempt", attributes) as span:
            async with aclosing(attempt.events()) as events:
                async for event in events:
                    if isinstance(event, Completed | Failed):
                        self._note(event, waited_s, span)
                    yield event

    def _note(self, ending: Completed | Failed, waited_s: float, span: Span) -> None:
        candidate = self.chosen.candidate
        failure = ending.failure if isinstance(ending, Failed) else None
        self._records.append(
            AttemptRecord(
                provider=candidate.provider,
                model=candidate.model,
                failure=failure.kind if failure else None,
                message=failure.message if failure else "",
                waited_s=waited_s,
                usage=ending.usage,
                timings=ending.timings,
            )
        )
        self._metrics.attempts.add(*self._who(), failure.kind if failure else "completed")
        span.set(ending_attributes(ending))
        span.add_phases(ending.timings)
        if failure is not None:
            span.fail(failure)

    def _following(self, told: GenerateRequest, ending: Failed) -> _Next | None:
        """Say what comes after a failure, or nothing when it is the outcome."""
        failure = ending.failure
        if self._again_count + 1 >= self._policy.max_attempts or self._left_s(told) <= 0:
            return None
        if failure.kind in self._plan.fallback_on and self._position + 1 < len(self._plan.chosen):
            return _Next(self._position + 1)
        if failure.kind not in self._policy.retry_on or not failure.retryable or self._crashes_again():
            return None
        wait_s = self._backoff.wait_s(failure, self._repetitions + 1)
        if wait_s is None or wait_s >= self._left_s(told):
            return None
        return _Next(self._position, wait_s)

    async def _wait(self, following: _Next) -> float:
        kind = self._records[-1].failure or "internal"
        self._again_count += 1
        if following.position != self._position:
            self._move_to(following.position, kind)
            return 0.0
        self._repetitions += 1
        self._metrics.retries.add(*self._who(), kind)
        began_s = self._clock.now_s()
        with self._span.child("back_off", {"appliance.wait_s": following.wait_s, "error.type": kind}):
            await self._clock.sleep(following.wait_s)
        return self._clock.now_s() - began_s

    def _move_to(self, position: int, kind: str) -> None:
        self._metrics.fallbacks.add(*self._who(), kind)
        self._position = position
        self._repetitions = 0

    def _crashes_again(self) -> bool:
        """Whether the request has crashed its engine twice: it would a third time, and others suffer."""
        crashed = [record.model for record in self._records if record.failure == "engine_crashed"]
        return crashed.count(self.chosen.candidate.model) > 1

    def _left_s(self, told: GenerateRequest) -> float:
        total_s = told.deadline.total_s
        return float("inf") if total_s is None else self._started_s + total_s - self._clock.now_s()

    def _who(self) -> tuple[str, str]:
        candidate = self.chosen.candidate
        return candidate.provider, candidate.model
