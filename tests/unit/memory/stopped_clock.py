"""A clock that only tests move."""

from __future__ import annotations

import asyncio


class StoppedClock:
    """Time stands still until a test moves it; sleepers wake when it passes their hour."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, duration_s: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self._now_s + duration_s, woken))
        await woken.wait()

    def pass_s(self, duration_s: float) -> None:
        self._now_s += duration_s
        for hour_s, woken in self._sleepers:
            if hour_s <= self._now_s:
                woken.set()
