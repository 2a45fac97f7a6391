"""The course of one request: planned, looked up, seated, answered, accounted for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.config import RetryPolicy
from appliance.core.errors import ApplianceError, Failure
from appliance.core.events import Completed, Failed, StreamEvent
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings
from appliance.gateway.adding import Spent
from appliance.gateway.admission import Admission, Seat
from appliance.gateway.attempts import Attempts
from appliance.gateway.backoff import BackOff
from appliance.gateway.cascade import Answer, CascadedAnswer, Grader
from appliance.gateway.judge import Judge, judge_of
from appliance.gateway.pricing import Pricing
from appliance.gateway.repair import JudgedAnswer, RepairedAnswer
from appliance.gateway.reuse import Found, Reuse
from appliance.gateway.router import Plan, Router
from appliance.telemetry import RequestLabels, Span, Telemetry, ending_attributes, request_attributes

if TYPE_CHECKING:
    from appliance.gateway.response_cache import ResponseCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Workings:
    """What the requests of one gateway share."""

    clock: Clock
    router: Router
    admission: Admission
    retry: RetryPolicy
    backoff: BackOff
    pricing: Pricing
    telemetry: Telemetry
    cache: ResponseCache | None = None


class Course:
    """One request from its arrival to its one terminal event. After the last event `value` is the answer's."""

    def __init__(
        self, workings: Workings, request: GenerateRequest, answer_type: object | None, grader: Grader | None
    ) -> None:
        self._workings = workings
        self._request = request
        self._answer_type = answer_type
        self._grader = grader
        self._started_s = workings.clock.now_s()
        self._plan: Plan | None = None
        self._attempts: Attempts | None = None
        self.value: object | None = None

    async def events(self) -> AsyncGenerator[StreamEvent]:
        """Yield the events; the last says in `handling` how it came about."""
        request = self._request
        span = self._workings.telemetry.span(
            "chat", request_attributes(request), owner=request.owner, request_id=request.request_id
        )
        with span:
            async with aclosing(self._handled(span)) as events:
                async for event in events:
                    if isinstance(event, Completed | Failed):
                        event = self._accounted(event, span)
                        # Readers close the stream here, which is no cancelling.
                        span.end()
                    yield event

    async def _handled(self, span: Span) -> AsyncGenerator[StreamEvent]:
        try:
            judge = await judge_of(self._request, self._answer_type)
            plan = await self._planned(judge.request, span)
            reuse = self._reuse(judge, plan)
            found = await self._found(reuse, span)
            seat = await self._seated(judge.told, plan, span) if found is None else None
        except ApplianceError as exc:
            yield self._refused(exc.to_failure())
            return
        if seat is None:
            assert found is not None
            self.value = found.value
            for event in found.events(self._elapsed_s()):
                yield event
            return
        async with aclosing(self._seated_answer(judge, plan, seat, reuse, span)) as events:
            async for event in events:
                yield event

    async def _planned(self, request: GenerateRequest, span: Span) -> Plan:
        plan = self._plan = await self._workings.router.plan(request)
        if plan.refusal is not None:
            raise plan.refusal
        decision = plan.decision
        if decision.route:
            rejected = ",".join(f"{found.model}:{found.reason}" for found in decision.rejected)
            span.set({"appliance.route": decision.route, "appliance.rejected": rejected})
            span.set({"appliance.difficulty": decision.difficulty})
        return plan

    def _reuse(self, judge: Judge, plan: Plan) -> Reuse | None:
        """Stored answers take no part where a grader may refuse them."""
        if self._workings.cache is None or self._grader is not None:
            return None
        return Reuse(self._workings.cache, judge, plan.chosen[0], self._workings.telemetry.metrics)

    async def _found(self, reuse: Reuse | None, span: Span) -> Found | None:
        if reuse is None:
            return None
        found = await reuse.find()
        span.set({"appliance.is_from_cache": found is not None})
        return found

    async def _seated(self, told: GenerateRequest, plan: Plan, span: Span) -> Seat:
        candidate = plan.chosen[0].candidate
        with span.child("admission"):
            seat = await self._workings.admission.seat(told, candidate, self._started_s)
        self._workings.telemetry.metrics.queue_wait.observe(
            candidate.provider, candidate.model, value_s=seat.waited_s
        )
        return seat

    async def _seated_answer(
        self, judge: Judge, plan: Plan, seat: Seat, reuse: Reuse | None, span: Span
    ) -> AsyncGenerator[StreamEvent]:
        attempts = self._attempts = self._attempts_of(plan, span)
        answer = self._answer(judge, attempts, span)
        has_ended = False
        try:
            async with aclosing(answer.events()) as events:
                async for event in events:
                    self.value = answer.value
                    if reuse is not None:
                        await reuse.note(event, attempts.chosen)
                    if isinstance(event, Completed | Failed):
                        has_ended = True
                        event = _after_queue(event, seat)
                    yield event
        finally:
            used_tokens = attempts.computed_tokens
            self._workings.admission.leave(
                seat, used_tokens if has_ended else max(used_tokens, seat.ask.tokens)
            )

    def _attempts_of(self, plan: Plan, span: Span) -> Attempts:
        workings = self._workings
        return Attempts(
            plan,
            workings.retry,
            workings.backoff,
            workings.clock,
            started_s=self._started_s,
            span=span,
            metrics=workings.telemetry.metrics,
        )

    def _answer(self, judge: Judge, attempts: Attempts, span: Span) -> Answer:
        def one() -> Answer:
            if self._answer_type is None:
                return JudgedAnswer(judge, judge.told, attempts, span)
            return RepairedAnswer(judge, attempts, span)

        if self._grader is None and not attempts.can_escalate:
            return one()
        return CascadedAnswer(one, attempts, self._grader)

    def _refused(self, failure: Failure) -> Failed:
        self._workings.telemetry.metrics.rejections.add(failure.kind)
        return Failed(failure=failure, timings=Timings(total_s=self._elapsed_s()))

    def _accounted(self, ending: Completed | Failed, span: Span) -> Completed | Failed:
        """Say how the ending came about, and count it."""
        plan, attempts = self._plan, self._attempts
        handling = ending.handling
        if plan is not None:
            records = attempts.records if attempts is not None else ()
            places = {chosen.candidate.model: chosen.candidate.placement for chosen in plan.chosen}
            cost = self._workings.pricing.cost([(record, places[record.model]) for record in records])
            handling = replace(handling, decision=plan.decision, attempts=records, cost=cost)
        ending = replace(ending, handling=handling)
        span.set(ending_attributes(ending))
        if isinstance(ending, Failed):
            span.fail(ending.failure)
        self._workings.telemetry.metrics.observe_ending(self._labels(ending), ending)
        return ending

    def _labels(self, ending: Completed | Failed) -> RequestLabels:
        if isinstance(ending, Completed):
            return RequestLabels(provider=ending.model.provider, model=ending.model.name)
        if self._attempts is None:
            return RequestLabels(provider="", model="")
        candidate = self._attempts.chosen.candidate
        return RequestLabels(provider=candidate.provider, model=candidate.model)

    def _elapsed_s(self) -> float:
        return self._workings.clock.now_s() - self._started_s


def _after_queue(ending: Completed | Failed, seat: Seat) -> Completed | Failed:
    if not seat.waited_s:
        return ending
    waited = Timings(queue_s=seat.waited_s, total_s=seat.waited_s)
    return Spent(timings=waited).added_to_ending(ending)
