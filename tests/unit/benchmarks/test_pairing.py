import random

import pytest

from appliance.core.errors import InvalidRequestError
from benchmarks.pairing import bootstrap_ratio, compare_runs, judge
from benchmarks.records import Metric, Run
from benchmarks.statistics import Interval
from benchmarks.tables import comparison_lines
from tests.benchmark_records import rate, record, run

SLOW = (100.0, 102.0, 98.0, 101.0, 99.0, 100.0)
FAST = (150.0, 153.0, 147.0, 151.0, 149.0, 150.0)


def test_a_faster_run_is_better_with_its_ratio_and_interval() -> None:
    (pair,) = compare_runs(run(record(rate(*SLOW))), run(record(rate(*FAST)))).pairs

    assert pair.ratio == pytest.approx(1.5)
    assert pair.interval is not None
    assert 1.4 < pair.interval.low < 1.5 < pair.interval.high < 1.6
    assert pair.verdict == "better"


def test_a_shorter_time_is_better_too() -> None:
    before = Metric(name="ttft", unit="s", better="lower", samples=FAST)
    after = Metric(name="ttft", unit="s", better="lower", samples=SLOW)

    (pair,) = compare_runs(run(record(before)), run(record(after))).pairs

    assert pair.verdict == "better"


def test_the_same_samples_show_no_difference() -> None:
    (pair,) = compare_runs(run(record(rate(*SLOW))), run(record(rate(*SLOW)))).pairs

    assert (pair.ratio, pair.verdict) == (1.0, "no difference shown")


def test_two_repetitions_show_nothing_whatever_the_ratio() -> None:
    (pair,) = compare_runs(run(record(rate(100.0, 101.0))), run(record(rate(200.0, 201.0)))).pairs

    assert (pair.interval, pair.verdict) == (None, "too few repetitions")


@pytest.mark.parametrize("size", [5, 10, 20])
def test_runs_that_differ_by_noise_alone_seldom_show_a_difference(size: int) -> None:
    noise = random.Random(size)
    trials = 200
    shown = sum(
        judge(bootstrap_ratio(_sample(noise, size), _sample(noise, size)), "higher") != "no difference shown"
        for _ in range(trials)
    )

    assert shown / trials <= 0.10


def _sample(noise: random.Random, size: int) -> list[float]:
    return [noise.gauss(100.0, 5.0) for _ in range(size)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"processor": "Other"}, "processor"),
        ({"libraries": {"llama-cpp-python": "0.3.37"}}, "libraries"),
        ({"governor": "powersave"}, "governor"),
        ({"models": {"tiny": "bb22"}}, "weights of tiny"),
    ],
)
def test_unlike_fingerprints_are_refused_and_named(change: dict[str, object], named: str) -> None:
    first, second = run(record()), run(record(**change))

    with pytest.raises(InvalidRequestError, match=named):
        compare_runs(first, second)


def test_unlike_fingerprints_are_compared_when_told_and_the_result_says_so() -> None:
    comparison = compare_runs(run(record()), run(record(processor="Other")), allow_unlike=True)

    assert comparison.unlike_facts == ("processor",)
    assert len(comparison.pairs) == 1


def test_the_load_of_the_moment_makes_no_run_unlike() -> None:
    assert compare_runs(run(record(load_before=0.1)), run(record(load_before=3.0))).unlike_facts == ()


def test_only_like_configurations_are_paired() -> None:
    one = record(configuration={"model": "tiny", "threads": 1})
    two = record(configuration={"model": "tiny", "threads": 2})
    both = record(test="tg128")

    comparison = compare_runs(run(one, both), run(two, both))

    assert [pair.test for pair in comparison.pairs] == ["tg128"]
    assert comparison.only_first == ("engine pp512 (model tiny, threads 1)",)
    assert comparison.only_second == ("engine pp512 (model tiny, threads 2)",)


def test_a_setting_that_may_differ_is_left_out_of_the_pairing() -> None:
    one = record(configuration={"model": "tiny", "threads": 1})
    two = record(configuration={"model": "tiny", "threads": 2})

    assert len(compare_runs(run(one), run(two), across=("threads",)).pairs) == 1


def test_a_run_with_several_values_of_what_may_differ_is_refused() -> None:
    both = run(
        record(configuration={"model": "tiny", "threads": 1}),
        record(configuration={"model": "tiny", "threads": 2}),
    )

    with pytest.raises(InvalidRequestError, match="several values of threads"):
        compare_runs(both, both, across=("threads",))


def test_runs_without_a_common_test_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no test in the same configuration"):
        compare_runs(run(record(test="pp512")), run(record(test="tg128")))


def test_an_interval_that_touches_one_shows_nothing() -> None:
    assert judge(Interval(low=1.0, high=1.2, coverage=0.95), "higher") == "no difference shown"
    assert judge(Interval(low=1.01, high=1.2, coverage=0.95), "lower") == "worse"
    assert judge(Interval(low=0.5, high=0.9, coverage=0.95), "neither") == "differs"


def test_many_gaps_of_few_requests_are_few_samples() -> None:
    def itl(shift: float) -> Metric:
        gaps = tuple(shift + step / 1000 for step in range(120))
        return Metric(name="itl", unit="s", better="lower", samples=gaps, groups=(40, 40, 40))

    (pair,) = compare_runs(run(record(itl(0.1))), run(record(itl(0.2)))).pairs

    assert (pair.samples, pair.verdict) == ((3, 3), "too few repetitions")


def test_a_true_difference_is_found_in_most_runs() -> None:
    noise = random.Random(5)
    found = sum(
        judge(bootstrap_ratio(_sample(noise, 10), [1.2 * rate for rate in _sample(noise, 10)]), "higher")
        == "better"
        for _ in range(50)
    )

    assert found >= 45


def test_a_doubt_stands_once_with_its_tests() -> None:
    first = run(record(doubts=("busy", "varies")), record(test="tg128", doubts=("busy",)), name="a")

    comparison = compare_runs(first, run(record(), name="b"))

    assert comparison.doubts == ("a: busy", "a, pp512: varies")


def _drifting(noise: random.Random, name: str, factor: float = 1.0) -> Run:
    """A run on a machine that is up to 20 % slower or faster for a while."""
    level = factor * 100.0 * noise.uniform(0.8, 1.2)
    return run(record(rate(*(level * noise.uniform(0.99, 1.01) for _ in range(5)))), name=name)


def test_what_like_runs_differ_by_is_in_the_interval() -> None:
    noise = random.Random(3)
    kept = [_drifting(noise, f"run-{number}") for number in range(7)]
    pairs = [compare_runs(kept[0], other, kept=kept).pairs[0] for other in kept[1:]]
    alone = [compare_runs(kept[0], other).pairs[0] for other in kept[1:]]

    assert {pair.verdict for pair in pairs} == {"no difference shown"}
    assert {pair.like_runs for pair in pairs} == {(7, 7)}
    assert sum(pair.verdict != "no difference shown" for pair in alone) >= 4


def test_a_difference_beyond_that_of_like_runs_is_shown() -> None:
    noise = random.Random(3)
    kept = [_drifting(noise, f"run-{number}") for number in range(7)]

    (pair,) = compare_runs(kept[0], _drifting(noise, "other", factor=3.0), kept=kept).pairs

    assert pair.verdict == "better"


def test_runs_of_another_installation_or_setting_are_not_like() -> None:
    first, second = run(record(), name="a"), run(record(), name="b")
    others = [
        run(record(processor="Other"), name="c"),
        run(record(configuration={"model": "tiny", "threads": 9}), name="d"),
    ]

    (pair,) = compare_runs(first, second, kept=[first, second, *others]).pairs

    assert pair.like_runs == (2, 2)


def test_a_verdict_on_times_is_in_doubt_where_others_used_the_machine() -> None:
    quiet, noisy = record(rate(*SLOW)), record(rate(*FAST), doubts=("other programs used 40% of the CPU",))

    comparison = compare_runs(run(quiet), run(noisy))

    assert (comparison.pairs[0].verdict, comparison.pairs[0].is_noisy) == ("better", True)
    assert any("better, in doubt" in line for line in comparison_lines(comparison))
    assert any("fewer than 3 like runs" in line for line in comparison_lines(comparison))
