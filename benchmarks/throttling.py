"""Notices a processor that slows down under load: the kernel's counters, and rates that fall from start to end."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

FALLING_SHARE = 0.07
_LEAST_SAMPLES = 6
_COUNTERS = "devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"


def count_throttles(sys_folder: Path = Path("/sys")) -> int:
    """Times the kernel says a core was throttled since the start; 0 also where it does not say."""
    total = 0
    for path in sys_folder.glob(_COUNTERS):
        try:
            total += int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return total


def falling_share(rates: Sequence[float]) -> float:
    """How much lower the last third's median lies than the first third's, where nearly every later rate is lower.

    0 where rates go up and down: that is noise, which is told elsewhere.
    """
    if len(rates) < _LEAST_SAMPLES:
        return 0.0
    third = len(rates) // 3
    early, late = rates[:third], rates[-third:]
    if max(late) >= min(early):
        return 0.0
    return 1.0 - statistics.median(late) / statistics.median(early)


def reasons_of_throttling(samples: Sequence[Sequence[float]], *, throttles: int) -> list[str]:
    """Say what looks like throttling; an empty list means nothing does."""
    reasons = []
    if throttles > 0:
        reasons.append(f"the kernel throttled cores {throttles} times meanwhile")
    worst = max((falling_share(rates) for rates in samples), default=0.0)
    if worst > FALLING_SHARE:
        reasons.append(f"rates fell by {worst:.0%} from start to end, as of a processor that throttles")
    return reasons
