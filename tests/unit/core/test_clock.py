"""On a virtual clock sleepers wake in the order of their hour, at once."""

import asyncio

from appliance.core.clock import VirtualClock


async def test_sleepers_wake_in_order_and_time_stands_where_they_woke() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *durations_s: float) -> None:
        for duration_s in durations_s:
            await clock.sleep(duration_s)
            woken.append((name, clock.now_s()))

    await asyncio.gather(sleeper("a", 3.0, 1.0), sleeper("b", 1.0, 1.0), sleeper("c", 3600.0))

    assert woken == [("b", 1.0), ("b", 2.0), ("a", 3.0), ("a", 4.0), ("c", 3600.0)]


async def test_a_cancelled_sleeper_moves_no_time() -> None:
    clock = VirtualClock()
    long_sleep = asyncio.ensure_future(clock.sleep(100.0))
    await asyncio.sleep(0)
    long_sleep.cancel()

    await clock.sleep(1.0)

    assert clock.now_s() == 1.0
