"""Intervals of a median that hold however often one looks, so that a measurement may stop when it has seen enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import count

from benchmarks.statistics import Interval

# Beta(a, a) as prior of the share below the median. A small `a` favours samples that all lie on one side, so that
# few of them tell what is clearly faster from what is not.
_PRIOR = 0.2


def anytime_interval(values: Sequence[float], *, confidence: float) -> Interval:
    """Bound the median of what was measured so far; the bounds hold at all times together, not at one.

    If a value lies below the median with probability 1/2 whatever came before, then betting on the sides with a beta
    prior is a martingale, which exceeds 1 / (1 - confidence) at any time with probability 1 - confidence at most
    (Ville). The interval holds every number against which the bet has not yet won so much. It assumes no
    distribution, only that the sides are fair coins: two things that are alike, measured in random order, are.
    """
    ordered = sorted(values)
    rank = _excluded(len(ordered), confidence)
    if not rank:
        return Interval(low=0.0, high=math.inf, coverage=confidence)
    return Interval(low=ordered[rank - 1], high=ordered[-rank], coverage=confidence)


@lru_cache(maxsize=4096)
def least_values(confidence: float, against: int = 0) -> int:
    """How many values say on which side of 1 the median lies, where so many of them lie on the other."""
    wanted = -math.log(1.0 - confidence)
    return next(size for size in count(2 * (against + 1)) if _log_won(size, against) >= wanted)


@lru_cache(maxsize=4096)
def _excluded(size: int, confidence: float) -> int:
    """How many of the smallest values, and of the largest, lie outside of the interval."""
    wanted = -math.log(1.0 - confidence)
    rank = 0
    while 2 * (rank + 1) <= size and _log_won(size, rank) >= wanted:
        rank += 1
    return rank


def _log_won(size: int, below: int) -> float:
    """Logarithm of what a bettor has made of 1 when so many of the values lay below."""
    return size * math.log(2.0) + _log_beta(below + _PRIOR, size - below + _PRIOR) - _log_beta(_PRIOR, _PRIOR)


def _log_beta(one: float, other: float) -> float:
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)
