"""The machine's clock, as the port `Clock`."""

from __future__ import annotations

import asyncio
from time import perf_counter


class SystemClock:
    """Monotonic time of this machine."""

    def now_s(self) -> float:
        """Seconds on a monotonic clock."""
        return perf_counter()

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        await asyncio.sleep(duration_s)
