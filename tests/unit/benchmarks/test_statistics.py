"""Medians, intervals and ratios of small samples."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics import (
    coefficient_of_variation,
    median_interval,
    paired_ratios,
    percentile,
    summarise,
)

SAMPLES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=60)


def test_five_values_cannot_cover_more_than_their_range_allows() -> None:
    interval = median_interval([3.0, 1.0, 2.0, 5.0, 4.0])

    assert (interval.low, interval.high) == (1.0, 5.0)
    assert interval.coverage == pytest.approx(0.9375)


def test_ten_values_give_the_known_interval_of_ranks_two_and_nine() -> None:
    interval = median_interval([float(value) for value in range(1, 11)])

    assert (interval.low, interval.high) == (2.0, 9.0)
    assert interval.coverage == pytest.approx(1 - 22 / 1024)


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    chooser = random.Random(7)
    samples = [[chooser.expovariate(1.0) for _ in range(9)] for _ in range(4000)]
    true_median = 0.6931471805599453

    intervals = [median_interval(sample) for sample in samples]

    held = statistics.fmean(item.low <= true_median <= item.high for item in intervals)
    assert held == pytest.approx(intervals[0].coverage, abs=0.015)


@pytest.mark.parametrize("size", [199, 201, 1024, 50_000])
def test_large_samples_have_an_interval_of_the_ranks_that_the_normal_distribution_gives(size: int) -> None:
    interval = median_interval([float(value) for value in range(size)])

    half_width = 1.96 * size**0.5 / 2
    assert interval.low == pytest.approx(size / 2 - half_width, abs=2)
    assert interval.high == pytest.approx(size / 2 + half_width, abs=2)
    assert 0.95 <= interval.coverage < 0.97


@given(SAMPLES)
def test_a_median_lies_within_its_interval_and_its_range(values: list[float]) -> None:
    summary = summarise(values)

    assert summary.low <= summary.interval.low <= summary.median <= summary.interval.high <= summary.high
    assert 0.0 <= summary.interval.coverage < 1.0


@given(SAMPLES)
def test_a_lower_confidence_never_widens_the_interval(values: list[float]) -> None:
    wide, narrow = median_interval(values, confidence=0.95), median_interval(values, confidence=0.5)

    assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_a_single_value_covers_nothing() -> None:
    interval = median_interval([4.0])

    assert (interval.low, interval.high, interval.coverage) == (4.0, 4.0, 0.0)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="empty sample"):
        median_interval([])


def test_ratios_of_pairs_cancel_what_slowed_a_whole_round() -> None:
    assert paired_ratios([100.0, 50.0, 10.0], [50.0, 25.0, 5.0]) == [2.0, 2.0, 2.0]


def test_samples_of_different_lengths_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="2 values cannot be paired with 1"):
        paired_ratios([1.0, 2.0], [1.0])


def test_variation_is_the_spread_relative_to_the_mean() -> None:
    assert coefficient_of_variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)
    assert coefficient_of_variation([5.0]) == 0.0


@pytest.mark.parametrize(("percent", "value"), [(0, 10.0), (50, 30.0), (90, 46.0), (100, 50.0)])
def test_percentiles_are_interpolated_between_neighbours(percent: float, value: float) -> None:
    assert percentile([50.0, 10.0, 40.0, 20.0, 30.0], percent) == pytest.approx(value)


def test_a_percentage_beyond_a_hundred_is_refused() -> None:
    with pytest.raises(ValueError, match="no percentage"):
        percentile([1.0], 101)
