"""Retry by kind of failure and explicit fallback: within budget and deadline, and never after a delta."""

from random import Random

import pytest

from appliance.config import RetryPolicy, Route, RouteCandidate
from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, FailureKind
from appliance.core.events import Completed, Failed, StreamEvent, TextDelta
from appliance.core.requests import Deadline
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.core.usage import Usage
from appliance.gateway import Gateway, GatewayPolicy
from appliance.gateway.backoff import BackOff
from tests.played_provider import Play, PlayedModel, PlayedProvider, fails, question, says

RETRY = RetryPolicy(max_attempts=3, first_wait_s=1.0, longest_wait_s=4.0)


class Trial:
    """Models behind one route of them all, on a clock where nobody waits."""

    def __init__(
        self,
        *models: PlayedModel,
        retry: RetryPolicy = RETRY,
        fallback_on: tuple[FailureKind, ...] = ("provider_unavailable",),
    ) -> None:
        self.clock = VirtualClock()
        candidates = tuple(RouteCandidate(model=model.name) for model in models)
        route = Route(name="all", candidates=candidates, fallback_on=frozenset(fallback_on))
        self.gateway = Gateway(
            [PlayedProvider(self.clock, *models)],
            self.clock,
            policy=GatewayPolicy(routes={"all": route}, retry=retry),
            chance=Random(7),
        )

    async def success(self, deadline: Deadline | None = None) -> GenerateSuccess:
        result = await self.gateway.generate(question(model="all", deadline=deadline or Deadline()))
        assert isinstance(result, GenerateSuccess), result
        return result

    async def failure(self, deadline: Deadline | None = None) -> GenerateFailure:
        result = await self.gateway.generate(question(model="all", deadline=deadline or Deadline()))
        assert isinstance(result, GenerateFailure), result
        return result

    async def events(self) -> list[StreamEvent]:
        return [event async for event in self.gateway.stream(question(model="all"))]


def small(*plays: Play) -> PlayedModel:
    return PlayedModel("small", plays)


def big(*plays: Play) -> PlayedModel:
    return PlayedModel("big", plays)


async def test_a_failure_that_may_pass_is_tried_again_after_a_wait() -> None:
    trial = Trial(small(fails("provider_unavailable"), says("well")))

    result = await trial.success()

    first, second = result.handling.attempts
    assert (first.failure, first.model, first.waited_s) == ("provider_unavailable", "small", 0.0)
    assert (second.failure, second.model) == (None, "small")
    assert 0.5 <= second.waited_s <= 1.0
    assert trial.clock.now_s() == pytest.approx(second.waited_s)


async def test_waits_double_up_to_the_longest_and_a_part_is_left_to_chance() -> None:
    backoff = BackOff(RETRY, Random(3))
    failure = Failure(kind="timeout", message="", retryable=True)

    waits = [[backoff.wait_s(failure, repetition) or 0.0 for _ in range(50)] for repetition in range(1, 6)]

    for spread, whole in zip(waits, (1.0, 2.0, 4.0, 4.0, 4.0), strict=True):
        assert whole / 2 <= min(spread) < max(spread) <= whole
        assert len(set(spread)) > 40


async def test_the_same_chance_gives_the_same_waits() -> None:
    failure = Failure(kind="timeout", message="", retryable=True)

    first, second = ([BackOff(RETRY, Random(seed)).wait_s(failure, 1) for _ in range(3)] for seed in (5, 5))

    assert first == second


async def test_a_failure_that_says_when_to_come_back_is_waited_for_that_long() -> None:
    trial = Trial(small(fails("rate_limited", retry_after_s=3.5), says("well")))

    result = await trial.success()

    assert result.handling.attempts[1].waited_s == pytest.approx(3.5)


async def test_coming_back_later_than_the_longest_wait_is_left_to_the_caller() -> None:
    result = await Trial(small(fails("rate_limited", retry_after_s=60.0), says("never"))).failure()

    assert result.failure.kind == "rate_limited"
    assert len(result.handling.attempts) == 1


async def test_attempts_end_with_the_budget() -> None:
    model = small(fails("provider_unavailable"))

    result = await Trial(model).failure()

    assert result.failure.kind == "provider_unavailable"
    assert len(model.requests) == 3
    assert [attempt.failure for attempt in result.handling.attempts] == ["provider_unavailable"] * 3


async def test_a_request_that_crashes_its_engine_twice_is_not_tried_a_third_time() -> None:
    model = small(fails("engine_crashed"), fails("engine_crashed"), says("never"))

    result = await Trial(model).failure()

    assert result.failure.kind == "engine_crashed"
    assert len(model.requests) == 2


NOT_TRIED_AGAIN = [
    pytest.param(fails("invalid_request"), id="the caller must change something"),
    pytest.param(fails("provider_unavailable", retryable=False), id="it would fail again"),
    pytest.param(fails("timeout"), id="a kind that the policy leaves out"),
    pytest.param(fails("cancelled"), id="cancelled"),
]


@pytest.mark.parametrize("play", NOT_TRIED_AGAIN)
async def test_other_failures_are_not_tried_again(play: Play) -> None:
    model = small(play, says("never"))

    await Trial(model).failure()

    assert len(model.requests) == 1


async def test_nothing_is_tried_again_once_a_delta_came() -> None:
    model = small(fails("provider_unavailable", after="half"), says("never"))
    other = big(says("never"))

    events = await Trial(model, other).events()

    assert [event.kind for event in events] == ["text_delta", "failed"]
    assert (len(model.requests), other.requests) == (1, [])


async def test_no_wait_reaches_beyond_the_total_deadline() -> None:
    trial = Trial(small(fails("provider_unavailable", seconds=1.0), says("never")))

    result = await trial.failure(Deadline(total_s=1.4))

    assert result.failure.kind == "provider_unavailable"
    assert trial.clock.now_s() == pytest.approx(1.0)


async def test_the_total_deadline_covers_all_attempts_together() -> None:
    retry = RetryPolicy(max_attempts=9, first_wait_s=1.0, longest_wait_s=1.0)
    trial = Trial(small(fails("provider_unavailable", seconds=2.0)), retry=retry)

    result = await trial.failure(Deadline(total_s=7.0))

    assert trial.clock.now_s() <= 7.0
    assert 2 <= len(result.handling.attempts) <= 3


async def test_the_first_token_deadline_is_each_attempt_s_own() -> None:
    retry = RetryPolicy(max_attempts=2, retry_on=frozenset(("timeout",)))
    trial = Trial(small(says("late", seconds=9.0), says("in time", seconds=2.0)), retry=retry)

    result = await trial.success(Deadline(first_token_s=3.0))

    assert result.message.text == "in time"
    assert [attempt.failure for attempt in result.handling.attempts] == ["timeout", None]


async def test_a_provider_without_a_sign_of_life_ends_at_the_connect_deadline() -> None:
    result = await Trial(small(says("late", seconds=9.0))).failure(Deadline(connect_s=2.0, first_token_s=5.0))

    assert result.failure.details == {"phase": "connect", "limit_s": 2.0}


async def test_the_next_candidate_is_asked_at_once_when_the_route_falls_back_on_the_failure() -> None:
    trial = Trial(small(fails("provider_unavailable", seconds=1.0)), big(says("from big", seconds=1.0)))

    result = await trial.success()

    assert (result.message.text, result.model.name) == ("from big", "big")
    assert [(attempt.model, attempt.failure) for attempt in result.handling.attempts] == [
        ("small", "provider_unavailable"),
        ("big", None),
    ]
    assert trial.clock.now_s() == pytest.approx(2.0)


async def test_another_failure_is_no_reason_to_fall_back() -> None:
    other = big(says("never"))

    result = await Trial(small(fails("context_overflow", retryable=False)), other).failure()

    assert result.failure.kind == "context_overflow"
    assert other.requests == []


async def test_a_prompt_too_long_can_go_to_a_larger_window_when_the_route_says_so() -> None:
    trial = Trial(
        small(fails("context_overflow", retryable=False)),
        big(says("fits")),
        fallback_on=("context_overflow",),
    )

    assert (await trial.success()).message.text == "fits"


async def test_the_last_candidate_is_tried_again() -> None:
    last = big(fails("provider_unavailable"), says("well"))

    result = await Trial(small(fails("provider_unavailable")), last).success()

    assert [attempt.model for attempt in result.handling.attempts] == ["small", "big", "big"]


async def test_usage_and_times_count_every_attempt() -> None:
    trial = Trial(
        small(fails("provider_unavailable", seconds=1.0)),
        big(says("one two three", seconds=2.0, input_tokens=10)),
    )

    result = await trial.success()

    assert result.usage == Usage(input_tokens=13, output_tokens=3)
    assert result.timings.total_s == pytest.approx(3.0)
    assert result.timings.ttft_s == pytest.approx(3.0)
    assert [attempt.usage.input_tokens for attempt in result.handling.attempts] == [3, 10]


async def test_the_caller_sees_one_stream_with_one_end() -> None:
    events = await Trial(small(fails("provider_unavailable")), big(says("whole"))).events()

    assert [event.kind for event in events] == ["text_delta", "completed"]
    assert isinstance(events[0], TextDelta)
    assert isinstance(events[1], Completed)


async def test_nobody_is_asked_once_the_total_deadline_is_over() -> None:
    other = big(says("never"))
    trial = Trial(small(says("late", seconds=9.0)), other, fallback_on=("timeout",))

    result = await trial.failure(Deadline(total_s=3.0))

    assert result.failure.details == {"phase": "total", "limit_s": 3.0}
    assert other.requests == []


async def test_the_wait_before_a_retry_counts_in_the_times() -> None:
    trial = Trial(small(fails("provider_unavailable", seconds=1.0), says("well", seconds=1.0)))

    result = await trial.success()

    assert result.timings.total_s == pytest.approx(trial.clock.now_s())
    assert result.timings.ttft_s == pytest.approx(trial.clock.now_s())


async def test_waits_begin_anew_with_another_candidate() -> None:
    retry = RetryPolicy(
        max_attempts=9, first_wait_s=1.0, longest_wait_s=64.0, retry_on=frozenset(("internal",))
    )
    small_fails = [fails("internal")] * 4 + [fails("provider_unavailable")]

    result = await Trial(small(*small_fails), big(fails("internal"), says("well")), retry=retry).success()

    waits = [attempt.waited_s for attempt in result.handling.attempts]
    assert 4.0 <= waits[4] <= 8.0
    assert [attempt.model for attempt in result.handling.attempts][5:] == ["big", "big"]
    assert (waits[5], 0.5 <= waits[6] <= 1.0) == (0.0, True)


async def test_a_budget_of_one_is_one_attempt() -> None:
    model = small(fails("provider_unavailable"))

    events = await Trial(model, big(says("never")), retry=RetryPolicy(max_attempts=1)).events()

    assert isinstance(events[-1], Failed)
    assert len(model.requests) == 1
