"""Times of a streamed request, by vLLM's definitions."""

import pytest

from benchmarks.metrics import RequestTrace, goodput, output_throughput


def trace(sent_s: float, chunks_s: tuple[float, ...], ended_s: float, tokens: int) -> RequestTrace:
    return RequestTrace(sent_s=sent_s, chunk_times_s=chunks_s, ended_s=ended_s, output_tokens=tokens)


def test_times_of_one_request_follow_the_formulas() -> None:
    request = trace(10.0, (10.5, 10.7, 11.0), 11.1, 4)

    assert request.ttft_s == pytest.approx(0.5)
    assert request.e2el_s == pytest.approx(1.1)
    assert request.tpot_s == pytest.approx((1.1 - 0.5) / 3)
    assert request.itl_s == pytest.approx((0.2, 0.3))


def test_a_chunk_of_several_tokens_changes_gaps_but_not_the_time_per_token() -> None:
    one_by_one = trace(0.0, (1.0, 1.1, 1.2, 1.3), 1.3, 4)
    in_pairs = trace(0.0, (1.0, 1.3), 1.3, 4)

    assert in_pairs.tpot_s == one_by_one.tpot_s
    assert in_pairs.itl_s == pytest.approx((0.3,))


def test_time_per_token_is_undefined_for_a_single_token() -> None:
    assert trace(0.0, (1.0,), 1.0, 1).tpot_s is None


def test_a_request_without_content_has_no_time_to_a_first_token() -> None:
    silent = trace(0.0, (), 2.0, 0)

    assert silent.ttft_s is None
    assert silent.e2el_s == 2.0


def test_throughput_counts_from_the_first_request_to_the_last_byte() -> None:
    requests = [trace(0.0, (1.0,), 2.0, 10), trace(1.0, (2.0,), 5.0, 30)]

    assert output_throughput(requests) == pytest.approx(40 / 5)


def test_goodput_leaves_out_requests_beyond_the_limits_but_not_their_time() -> None:
    quick, late = trace(0.0, (0.1,), 1.0, 10), trace(0.0, (3.0,), 4.0, 30)

    assert goodput([quick, late], ttft_limit_s=1.0) == pytest.approx(10 / 4)
    assert goodput([quick, late], tpot_limit_s=0.05) == pytest.approx(30 / 4)
    assert goodput([quick, late]) == pytest.approx(40 / 4)


def test_a_request_without_content_is_never_good() -> None:
    assert goodput([trace(0.0, (), 2.0, 0), trace(0.0, (1.0,), 2.0, 8)]) == pytest.approx(4.0)


def test_no_request_has_no_throughput() -> None:
    with pytest.raises(ValueError, match="no request"):
        output_throughput([])


def test_tokens_of_one_write_are_one_burst_and_the_gaps_between_writes_are_kept() -> None:
    grouped = trace(0.0, (1.0, 1.00001, 1.00002, 1.075, 1.07501, 1.07502), 1.075, 6)

    assert grouped.bursts_s == (1.0, 1.075)
    assert grouped.burst_gaps_s == pytest.approx((0.075,))
    assert grouped.tokens_per_burst == 3.0
    assert len(grouped.itl_s) == 5


def test_a_fast_stream_is_not_taken_for_a_single_write() -> None:
    steady = trace(0.0, tuple(1.0 + 0.0004 * step for step in range(100)), 1.04, 100)

    assert 30 <= len(steady.bursts_s) <= 40


def test_an_answer_without_text_has_no_bursts() -> None:
    silent = trace(0.0, (), 2.0, 0)

    assert (silent.bursts_s, silent.tokens_per_burst) == ((), None)
