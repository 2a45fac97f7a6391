"""Clocks that satisfy the port `Clock`: the machine's, and one where nobody waits."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from time import perf_counter

_SETTLING_TURNS = 20


class SystemClock:
    """Monotonic time of this machine."""

    def now_s(self) -> float:
        """Seconds on a monotonic clock."""
        return perf_counter()

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        await asyncio.sleep(duration_s)


class VirtualClock:
    """Time that passes only when everyone waits: sleepers wake in order and at once.

    For scripts, demonstrations and tests on one event loop that does no input or output.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._driver: asyncio.Task[None] | None = None

    def now_s(self) -> float:
        """Virtual seconds since the clock was made."""
        return self._now_s

    async def sleep(self, duration_s: float) -> None:
        """Wait in virtual time."""
        wake = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._now_s + max(duration_s, 0.0), next(self._order), wake))
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())
        await wake

    async def _drive(self) -> None:
        while self._sleepers:
            for _ in range(_SETTLING_TURNS):
                await asyncio.sleep(0)
            wake_s, _, wake = heappop(self._sleepers)
            if not wake.done():
                self._now_s = max(self._now_s, wake_s)
                wake.set_result(None)
