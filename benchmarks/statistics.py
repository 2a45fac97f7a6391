"""Statistics for small, noisy samples of a benchmark: medians, spreads, and intervals that assume no distribution."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, floor, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Statistic = Literal["median", "mean"]

SEED = 20_240_229
_RESAMPLES = 10_000
_MOST_EXACT = 200
_DRAWN_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Bounds of a median and the probability that they hold it.

    `coverage` is what the sample size allows: five values cover at most 93.75 %, so a wanted 95 % is not claimed.
    """

    low: float
    high: float
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One sample in a few figures."""

    count: int
    median: float
    low: float
    high: float
    interval: Interval
    variation: float


def summarise(values: Sequence[float], *, confidence: float = 0.95) -> Summary:
    """Describe a sample of at least one value."""
    return Summary(
        count=len(values),
        median=statistics.median(values),
        low=min(values),
        high=max(values),
        interval=median_interval(values, confidence=confidence),
        variation=coefficient_of_variation(values),
    )


def median_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Bound the median by order statistics: the narrowest symmetric pair that covers at least `confidence`.

    The number of values below the median is binomial with p = 1/2 whatever the distribution, so the pair of the
    k-th smallest and k-th largest value covers it with probability 1 - 2 P(X < k).
    """
    if not values:
        raise ValueError("an empty sample has no median")
    ordered = sorted(values)
    rank, coverage = _rank(len(ordered), confidence)
    return Interval(low=ordered[rank - 1], high=ordered[-rank], coverage=coverage)


@lru_cache(maxsize=1024)
def _rank(size: int, confidence: float) -> tuple[int, float]:
    """The largest rank that covers so much, and what it covers; of large samples by the normal distribution."""
    if size > _MOST_EXACT:
        half = sqrt(size) / 2
        rank = floor(size / 2 - statistics.NormalDist().inv_cdf((1 + confidence) / 2) * half)
        return rank, 1.0 - 2.0 * statistics.NormalDist().cdf((rank - 0.5 - size / 2) / half)
    rank = 1
    while 2 * (rank + 1) <= size and _coverage(size, rank + 1) >= confidence:
        rank += 1
    return rank, _coverage(size, rank)


def _coverage(size: int, rank: int) -> float:
    outside: float = 2 * sum(comb(size, below) for below in range(rank)) / 2**size
    return 1.0 - outside


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Standard deviation over mean; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    mean = statistics.fmean(values)
    return statistics.stdev(values) / abs(mean) if mean else 0.0


def paired_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Divide values measured in the same round, so that what slowed a whole round cancels.

    Raises:
        ValueError: the samples have different lengths, so they are no pairs.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values cannot be paired with {len(theirs)}")
    return [own / other for own, other in zip(ours, theirs, strict=True)]


def resampled(values: Sequence[float], statistic: Statistic, *, seed: int = SEED) -> NDArray[np.float64]:
    """The statistic of many samples drawn with replacement from one, always the same draws for a seed."""
    chooser, pool = np.random.default_rng(seed), np.asarray(values, np.float64)
    rows = max(1, _DRAWN_AT_ONCE // len(values))
    found: list[NDArray[np.float64]] = []
    for first in range(0, _RESAMPLES, rows):
        drawn = chooser.choice(pool, (min(rows, _RESAMPLES - first), len(values)))
        found.append(np.median(drawn, axis=1) if statistic == "median" else drawn.mean(axis=1))
    return np.concatenate(found)


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Bound the mean by resampling, percentile method."""
    low, high = bounds(resampled(values, "mean"), confidence)
    return Interval(low=low, high=high, coverage=confidence if len(values) > 1 else 0.0)


def share_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Bound a share of successes by Wilson's score interval, which holds also where all or none succeeded."""
    size, share = len(values), statistics.fmean(values)
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (share + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    return Interval(low=max(0.0, centre - half), high=min(1.0, centre + half), coverage=confidence)


def bounds(values: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """The two percentiles between which the middle share of values lies."""
    tail = (1 - confidence) / 2 * 100
    low, high = np.nanpercentile(values, [tail, 100 - tail], method="inverted_cdf")
    return float(low), float(high)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the sample lies, interpolated linearly between neighbours."""
    if not values:
        raise ValueError("an empty sample has no percentiles")
    if not 0.0 <= percent <= 100.0:
        raise ValueError(f"{percent} is no percentage")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100.0
    below, above = floor(position), ceil(position)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
