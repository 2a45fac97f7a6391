import pytest

from benchmarks.records import Metric
from benchmarks.statistics import mean_interval, share_interval


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [(0, 20, 0.0, 0.161), (20, 20, 0.839, 1.0), (8, 20, 0.219, 0.613)],
)
def test_a_share_has_the_interval_of_wilson(right: int, of: int, low: float, high: float) -> None:
    interval = share_interval([1.0] * right + [0.0] * (of - right))

    assert (interval.low, interval.high) == (pytest.approx(low, abs=0.001), pytest.approx(high, abs=0.001))


def test_a_mean_lies_in_its_interval_and_one_value_covers_nothing() -> None:
    interval = mean_interval([1.0, 2.0, 3.0, 4.0, 10.0])

    assert interval.low < 4.0 < interval.high
    assert mean_interval([3.0]).coverage == 0.0


def test_the_value_of_throughput_in_parts_is_the_mean_where_a_time_has_the_median() -> None:
    samples = (0.0, 0.0, 9.0)

    assert Metric(name="t", unit="tokens/s", better="higher", samples=samples, statistic="mean").value == 3.0
    assert Metric(name="t", unit="s", better="lower", samples=samples).value == 0.0
