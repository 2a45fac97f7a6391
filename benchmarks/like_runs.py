"""How much a figure varies between runs of one installation: the noise that no single run can see."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.statistics import Interval

# Fewer say too little of how much runs differ.
LEAST_RUNS = 3
_CONFIDENCE = 0.95
# Student's t at 97.5 % by degrees of freedom; between two of them the lower one counts.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 8: 2.306, 10: 2.228, 15: 2.131, 30: 2.042}


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenRuns:
    """The spread of a figure's logarithm between like runs, and how many degrees of freedom it has."""

    deviation: float
    freedom: int

    def widened(self, ratio: float, interval: Interval) -> Interval:
        """The interval of a ratio of two runs, no narrower than the difference of two like runs alone makes it."""
        factor = math.exp(self._t * math.sqrt(2) * self.deviation)
        return Interval(
            low=min(interval.low, ratio / factor),
            high=max(interval.high, ratio * factor),
            coverage=_CONFIDENCE,
        )

    @property
    def _t(self) -> float:
        known = sorted(_T)
        return _T[known[bisect_right(known, self.freedom) - 1]]


def between_runs(first: Sequence[float], second: Sequence[float]) -> BetweenRuns | None:
    """Pool the spreads of the values of two groups of like runs; None where neither has enough of them."""
    groups = [
        [math.log(value) for value in values]
        for values in (first, second)
        if len(values) >= LEAST_RUNS and min(values) > 0
    ]
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return None
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in groups)
    return BetweenRuns(deviation=math.sqrt(squares / freedom), freedom=freedom)
