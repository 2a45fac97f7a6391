"""Seats, rates and the queue: bounded, fair between owners, and open to small requests beside large ones."""

import asyncio

import pytest

from appliance.config import Limits, Quota
from appliance.core.clock import VirtualClock
from appliance.core.requests import Deadline, SamplingParams
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.gateway import Gateway, GatewayPolicy
from appliance.telemetry import Telemetry
from tests.played_provider import PlayedModel, PlayedProvider, question, says

ANSWER_TOKENS = SamplingParams(max_tokens=100)
LARGE = "x" * 40_000


class Office:
    """A model that takes one second for each answer, behind limits, on a clock where nobody waits."""

    def __init__(self, limits: Limits, *, parallel: int = 0, seconds: float = 1.0) -> None:
        self.clock = VirtualClock()
        self.model = PlayedModel("small", [says("a b c", seconds=seconds)], parallel=parallel)
        self.telemetry = Telemetry(self.clock)
        self.gateway = Gateway(
            [PlayedProvider(self.clock, self.model)],
            self.clock,
            policy=GatewayPolicy(limits=limits),
            telemetry=self.telemetry,
        )
        self.ended: list[str] = []

    async def ask(
        self, label: str, *, owner: str = "anna", text: str = "", **changes: object
    ) -> GenerateResult:
        request = question(text or label, owner=owner, sampling=ANSWER_TOKENS, **changes)
        result = await self.gateway.generate(request)
        self.ended.append(label)
        return result

    async def ask_all(self, *asks: tuple[str, str]) -> list[str]:
        """Ask (owner, label) in order, all before the first is answered, and return the order of answers."""
        await asyncio.gather(*(self.ask(label, owner=owner) for owner, label in asks))
        return self.ended


def overall(**quota: int) -> Limits:
    return Limits(overall=Quota(**{"queue": 100, **quota}))


def failure_of(result: GenerateResult) -> GenerateFailure:
    assert isinstance(result, GenerateFailure), result
    return result


async def test_no_more_run_at_the_same_time_than_there_are_seats() -> None:
    office = Office(overall(concurrency=2))

    await office.ask_all(*(("anna", str(number)) for number in range(6)))

    assert office.model.most_running == 2
    assert office.clock.now_s() == pytest.approx(3.0)


async def test_a_model_has_as_many_seats_as_it_declares() -> None:
    office = Office(overall(), parallel=3)

    await office.ask_all(*(("anna", str(number)) for number in range(6)))

    assert office.model.most_running == 3


async def test_an_owner_has_seats_of_its_own_limit() -> None:
    limits = Limits(each_owner=Quota(concurrency=1), owners={"ben": Quota(concurrency=3)})
    office = Office(limits)

    await office.ask_all(("anna", "a1"), ("anna", "a2"), ("anna", "a3"), ("ben", "b1"), ("ben", "b2"))

    assert office.ended == ["a1", "b1", "b2", "a2", "a3"]


async def test_owners_take_turns_whoever_came_first() -> None:
    office = Office(overall(concurrency=1))

    ended = await office.ask_all(
        ("anna", "a1"), ("anna", "a2"), ("anna", "a3"), ("anna", "a4"), ("ben", "b1"), ("ben", "b2")
    )

    assert ended == ["a1", "b1", "a2", "b2", "a3", "a4"]


async def test_turns_are_even_in_tokens_and_not_in_requests() -> None:
    office = Office(overall(concurrency=1), seconds=1.0)
    office.model.plays = [
        says("word", seconds=1.0, input_tokens=1000),
        says("word", seconds=1.0, input_tokens=100),
    ]
    small_after_that = [("ben", f"b{number}") for number in range(4)]

    first = asyncio.create_task(office.ask("a1", owner="anna"))
    await asyncio.sleep(0)
    second = asyncio.create_task(office.ask("a2", owner="anna"))
    await office.ask_all(*small_after_that)
    await asyncio.gather(first, second)

    assert office.ended == ["a1", "b0", "b1", "b2", "b3", "a2"]


async def test_requests_of_one_owner_keep_their_order() -> None:
    office = Office(overall(concurrency=1))

    assert await office.ask_all(*(("anna", str(number)) for number in range(5))) == ["0", "1", "2", "3", "4"]


async def test_a_pause_earns_no_credit() -> None:
    office = Office(overall(concurrency=1))
    await office.ask_all(*(("anna", f"earlier {number}") for number in range(5)))
    office.ended.clear()

    ended = await office.ask_all(
        ("ben", "b1"), ("ben", "b2"), ("ben", "b3"), ("anna", "a1"), ("anna", "a2"), ("anna", "a3")
    )

    assert ended == ["b1", "a1", "b2", "a2", "b3", "a3"]


async def test_an_owner_who_comes_late_is_not_owed_what_others_had_before() -> None:
    office = Office(overall(concurrency=1))

    async def late(label: str) -> None:
        await office.clock.sleep(3.5)
        await office.ask(label, owner="ben")

    early = (office.ask(f"a{number}") for number in range(7))
    await asyncio.gather(*early, *(late(f"b{number}") for number in range(3)))

    assert office.ended == ["a0", "a1", "a2", "a3", "b0", "a4", "b1", "a5", "b2", "a6"]


async def test_large_requests_leave_a_seat_to_small_ones() -> None:
    office = Office(overall(concurrency=2))
    large = [asyncio.create_task(office.ask(f"large {number}", text=LARGE)) for number in range(4)]
    await asyncio.sleep(0)

    small = await office.ask("small", owner="anna")

    assert isinstance(small, GenerateSuccess)
    assert small.timings.queue_s == 0.0
    await asyncio.gather(*large)
    assert office.ended[-1] == "large 3"
    assert office.clock.now_s() == pytest.approx(4.0)


async def test_small_requests_pass_large_ones_of_the_same_owner_but_not_for_ever() -> None:
    office = Office(overall(concurrency=1))
    labels = ["first", "LARGE", *(f"s{number}" for number in range(8))]
    texts = {"LARGE": LARGE}

    await asyncio.gather(*(office.ask(label, text=texts.get(label, "")) for label in labels))

    assert office.ended == ["first", "s0", "s1", "s2", "s3", "LARGE", "s4", "s5", "s6", "s7"]


async def test_a_full_queue_for_one_model_does_not_keep_its_owner_from_another() -> None:
    clock = VirtualClock()
    busy, idle = (
        PlayedModel(name, [says("a", seconds=9.0)], digest=name, parallel=1) for name in ("busy", "idle")
    )
    policy = GatewayPolicy(limits=Limits(each_owner=Quota(queue=1)))
    gateway = Gateway([PlayedProvider(clock, busy, idle)], clock, policy=policy)

    results = await asyncio.gather(
        *(gateway.generate(question(model=name)) for name in ("busy", "busy", "idle"))
    )

    assert [result.timings.queue_s for result in results] == [0.0, pytest.approx(9.0), 0.0]


async def test_one_seat_is_open_to_large_requests() -> None:
    result = await Office(overall(concurrency=1)).ask("large", text=LARGE)

    assert isinstance(result, GenerateSuccess)


async def test_time_in_the_queue_is_told_and_counts_in_the_times() -> None:
    office = Office(overall(concurrency=1))

    first, second = await asyncio.gather(office.ask("first"), office.ask("second"))

    assert (first.timings.queue_s, second.timings.queue_s) == (0.0, pytest.approx(1.0))
    assert second.timings.ttft_s == pytest.approx(2.0)
    assert second.timings.total_s == pytest.approx(2.0)


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    office = Office(overall(concurrency=1, queue=1))

    results = await asyncio.gather(*(office.ask(str(number)) for number in range(3)))

    failure = failure_of(results[2]).failure
    assert office.ended[0] == "2"
    assert failure.kind == "rate_limited"
    assert failure.message == "1 requests are waiting and no more may"
    assert float(failure.details["retry_after_s"]) >= 1.0
    assert "come back in" in failure.hint


async def test_the_queue_of_one_owner_does_not_fill_that_of_another() -> None:
    limits = Limits(overall=Quota(concurrency=1), each_owner=Quota(queue=1))
    office = Office(limits)

    results = await asyncio.gather(
        office.ask("a1"), office.ask("a2"), office.ask("a3"), office.ask("b1", owner="ben")
    )

    assert [result.kind for result in results] == ["success", "success", "failure", "success"]
    assert "1 of your requests are waiting" in failure_of(results[2]).failure.message


async def test_an_estimate_of_the_wait_grows_with_the_queue() -> None:
    short = Office(overall(concurrency=1, queue=2), seconds=5.0)
    long = Office(overall(concurrency=1, queue=20), seconds=5.0)

    waits = []
    for office, number in ((short, 4), (long, 22)):
        await office.ask("warm up")
        results = await asyncio.gather(*(office.ask(str(index)) for index in range(number)))
        waits.append(failure_of(results[-1]).failure.details["retry_after_s"])

    assert waits[1] > waits[0] >= 1.0


async def test_requests_a_minute_are_limited_and_come_back_with_time() -> None:
    office = Office(overall(requests_per_minute=2), seconds=0.0)
    first = [await office.ask(str(number)) for number in range(3)]

    refused = failure_of(first[2]).failure
    assert refused.message == "the limit of 2 requests a minute is reached"
    assert refused.details["retry_after_s"] == 30.0

    await office.clock.sleep(30.0)
    assert isinstance(await office.ask("later"), GenerateSuccess)


async def test_tokens_a_minute_are_settled_by_what_was_used() -> None:
    limits = Limits(each_owner=Quota(tokens_per_minute=250))
    office = Office(limits, seconds=0.0)

    results = [await office.ask(str(number)) for number in range(20)]

    answered = [result for result in results if isinstance(result, GenerateSuccess)]
    used_tokens = sum(result.usage.input_tokens + result.usage.output_tokens for result in answered)
    assert 130 <= used_tokens <= 260
    assert "250 tokens a minute" in failure_of(results[-1]).failure.message
    assert isinstance(await office.ask("other", owner="ben"), GenerateSuccess)


async def test_a_request_larger_than_a_minute_s_tokens_runs_when_the_minute_is_unused() -> None:
    office = Office(overall(tokens_per_minute=500), seconds=0.0)

    first, second = await office.ask("large", text=LARGE), await office.ask("next")

    assert isinstance(first, GenerateSuccess)
    assert isinstance(second, GenerateSuccess), "it was settled: the model counted 13 tokens"


@pytest.mark.parametrize(
    "deadline, phase", [(Deadline(total_s=1.5), "total"), (Deadline(first_token_s=1.5), "first_token")]
)
async def test_deadlines_run_in_the_queue_and_free_its_place(deadline: Deadline, phase: str) -> None:
    office = Office(overall(concurrency=1), seconds=4.0)

    _, waiting = await asyncio.gather(office.ask("first"), office.ask("second", deadline=deadline))

    failure = failure_of(waiting).failure
    assert (failure.kind, failure.details["phase"]) == ("timeout", phase)
    assert len(office.model.requests) == 1
    assert office.ended == ["second", "first"]


async def test_a_caller_who_leaves_the_queue_is_passed() -> None:
    office = Office(overall(concurrency=1))
    tasks = [asyncio.create_task(office.ask(str(number))) for number in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)

    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert office.ended == ["0", "2"]
    assert len(office.model.requests) == 2


async def test_tokens_of_a_caller_who_leaves_the_queue_are_given_back() -> None:
    office = Office(overall(concurrency=1, tokens_per_minute=205))
    tasks = [asyncio.create_task(office.ask(str(number))) for number in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert failure_of(await office.ask("too much")).failure.kind == "rate_limited"

    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    results = [await office.ask(str(number)) for number in range(2)]
    assert [result.kind for result in results] == ["success", "success"]


async def test_the_seat_of_a_cancelled_request_is_free_again() -> None:
    office = Office(overall(concurrency=1), seconds=100.0)
    running = asyncio.create_task(office.ask("running"))
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    result = await office.ask("next")

    assert isinstance(result, GenerateSuccess)
    assert result.timings.queue_s == 0.0


async def test_queue_and_running_requests_are_shown_as_metrics() -> None:
    office = Office(overall(concurrency=1))
    tasks = [asyncio.create_task(office.ask(str(number))) for number in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)

    metrics = office.telemetry.metrics
    assert (metrics.queue_depth.values()[()], metrics.running.values()[()]) == (2, 1)
    await asyncio.gather(*tasks)
    assert (metrics.queue_depth.values()[()], metrics.running.values()[()]) == (0, 0)
    buckets, seconds = metrics.queue_wait.values()["played", "small"]
    assert (sum(buckets), seconds) == (3, pytest.approx(0.0 + 1.0 + 2.0))
