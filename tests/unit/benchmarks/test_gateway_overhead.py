"""The gateway's own time is what it adds to a provider that does nothing."""

from benchmarks.gateway_overhead import measure


async def test_a_request_costs_more_than_a_delta() -> None:
    overhead = await measure(requests=40)

    assert overhead.request_us > overhead.delta_us > 0
