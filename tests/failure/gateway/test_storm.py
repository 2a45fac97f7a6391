"""A storm of requests, cancellations, failures and deadlines leaves no seat taken and nobody waiting."""

import asyncio
from random import Random

import pytest

from appliance.config import Limits, Quota, RetryPolicy, Route, RouteCandidate
from appliance.core.clock import VirtualClock
from appliance.core.requests import Deadline
from appliance.gateway import Gateway, GatewayPolicy
from appliance.telemetry import Telemetry
from tests.played_provider import PlayedModel, PlayedProvider, fails, question, says

PLAYS = [
    says("a b c", seconds=1.0),
    fails("provider_unavailable", seconds=0.5),
    says("d", seconds=7.0),
    fails("internal", after="half", seconds=0.2),
    fails("rate_limited", retry_after_s=1.0),
]


@pytest.mark.parametrize("seed", range(8))
async def test_everything_is_given_back(seed: int) -> None:
    chance, clock = Random(seed), VirtualClock()
    models = [PlayedModel(name, chance.choices(PLAYS, k=200), parallel=3) for name in ("small", "big")]
    telemetry = Telemetry(clock)
    route = Route(name="both", candidates=tuple(RouteCandidate(model=model.name) for model in models))
    limits = Limits(overall=Quota(queue=20, concurrency=4), each_owner=Quota(queue=6, concurrency=3))
    policy = GatewayPolicy(routes={"both": route}, limits=limits, retry=RetryPolicy(first_wait_s=0.5))
    gateway = Gateway(
        [PlayedProvider(clock, *models)], clock, policy=policy, telemetry=telemetry, chance=chance
    )

    async def one(number: int) -> str:
        await clock.sleep(chance.uniform(0.0, 20.0))
        request = question(
            "x" * chance.choice((10, 10, 40_000)),
            model=chance.choice(("small", "both")),
            owner=f"owner {number % 5}",
            deadline=Deadline(total_s=chance.choice((None, 2.0, 30.0))),
        )
        return (await gateway.generate(request)).kind

    async def cancelled(task: asyncio.Task[str]) -> None:
        await clock.sleep(chance.uniform(0.0, 25.0))
        task.cancel()

    tasks = [asyncio.create_task(one(number)) for number in range(120)]
    cancels = [asyncio.create_task(cancelled(task)) for task in chance.sample(tasks, 30)]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*cancels)

    kinds = {outcome if isinstance(outcome, str) else type(outcome).__name__ for outcome in outcomes}
    assert kinds <= {"success", "failure", "CancelledError"}
    assert {"success", "failure"} <= kinds
    assert sum(model.running for model in models) == 0
    assert max(model.most_running for model in models) <= 4
    assert telemetry.metrics.running.values()[()] == 0
    assert telemetry.metrics.queue_depth.values()[()] == 0
    after = await gateway.generate(question(model="big"))
    assert after.timings.queue_s == 0.0
