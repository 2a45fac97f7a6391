"""Rows, pairs and verdicts of the side-by-side table."""

import pytest

from benchmarks.peers.comparison import Pair, compare


def pairs_of(row: str, figures: list[tuple[float, float | None]], model: str = "m") -> list[Pair]:
    return [
        Pair(row=row, model=model, round_number=number, ours=ours, theirs=theirs)
        for number, (ours, theirs) in enumerate(figures, start=1)
    ]


def test_the_verdict_is_of_the_median_of_paired_ratios_not_of_the_ratio_of_medians() -> None:
    pairs = pairs_of("decode", [(98, 100), (49, 50), (10, 100), (196, 200), (9.8, 10)])

    (comparison,) = compare(pairs)

    assert comparison.figure.median == pytest.approx(0.98)
    assert comparison.verdict == "met"


@pytest.mark.parametrize(
    ("row", "ratio", "verdict"),
    [
        ("decode", 0.96, "missed"),
        ("together", 1.0, "met"),
        ("together", 0.99, "missed"),
        ("second_turn", 1.09, "met"),
        ("second_turn", 1.2, "missed"),
        ("restart", 0.25, "met"),
        ("restart", 0.3, "missed"),
        ("decode_caller", 0.1, "for information"),
    ],
)
def test_each_row_has_its_own_target_and_direction(row: str, ratio: float, verdict: str) -> None:
    (comparison,) = compare(pairs_of(row, [(ratio * 50, 50)] * 5))

    assert comparison.verdict == verdict


def test_fewer_than_five_rounds_are_not_judged() -> None:
    (comparison,) = compare(pairs_of("decode", [(100, 100)] * 4))

    assert comparison.verdict == "too few rounds"


def test_a_row_without_a_peer_is_held_against_its_own_figure() -> None:
    (comparison,) = compare(pairs_of("delivery", [(0.0005, None)] * 5))

    assert comparison.theirs is None
    assert comparison.verdict == "met"


def test_rows_come_in_the_order_of_the_table_with_models_apart() -> None:
    pairs = [
        *pairs_of("prefill", [(1, 1)], model="b"),
        *pairs_of("decode", [(1, 1)], model="b"),
        *pairs_of("decode", [(1, 1)], model="a"),
    ]

    assert [(item.row.key, item.model) for item in compare(pairs)] == [
        ("decode", "b"),
        ("decode", "a"),
        ("prefill", "b"),
    ]


def test_details_are_medians_of_the_rounds_that_have_them() -> None:
    pairs = [
        Pair(row="together", model="m", round_number=1, ours=1, theirs=1, details={"equal_texts": 8}),
        Pair(row="together", model="m", round_number=2, ours=1, theirs=1, details={"equal_texts": 6}),
        Pair(row="together", model="m", round_number=3, ours=1, theirs=1),
    ]

    (comparison,) = compare(pairs)

    assert comparison.details == {"equal_texts": 7}
