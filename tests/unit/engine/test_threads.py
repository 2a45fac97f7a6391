"""Threads go down while the cores are shared and come back when they are free."""

from __future__ import annotations

from appliance.engine.threads import ThreadGovernor


def run(
    governor: ThreadGovernor, *, start_s: float, passes: int, share: float, wall_s: float = 0.02
) -> list[int]:
    """Observe passes of which the threads got a share of the time."""
    return [
        governor.observe(
            now_s=start_s + number * wall_s,
            wall_s=wall_s,
            processor_s=share * wall_s * governor.threads,
        )
        for number in range(passes)
    ]


def test_a_quiet_machine_keeps_all_threads() -> None:
    assert set(run(ThreadGovernor(4), start_s=0, passes=500, share=0.98)) == {4}


def test_three_disturbed_passes_in_a_row_take_a_thread_away() -> None:
    assert run(ThreadGovernor(2), start_s=1, passes=4, share=0.5) == [2, 2, 1, 1]


def test_a_single_disturbed_pass_changes_nothing() -> None:
    governor = ThreadGovernor(2)

    for _ in range(50):
        run(governor, start_s=1, passes=2, share=0.5)
        run(governor, start_s=1, passes=1, share=1.0)

    assert governor.threads == 2


def test_one_thread_is_the_least() -> None:
    assert run(ThreadGovernor(1), start_s=1, passes=10, share=0.2) == [1] * 10


def test_all_threads_are_tried_again_and_kept_when_it_is_quiet() -> None:
    governor = ThreadGovernor(2)
    run(governor, start_s=1, passes=3, share=0.5)

    run(governor, start_s=4, passes=1, share=1.0)

    assert run(governor, start_s=5, passes=50, share=1.0)[-1] == 2


def test_a_failed_trial_makes_the_next_one_wait_longer() -> None:
    governor = ThreadGovernor(2)
    run(governor, start_s=1, passes=3, share=0.5)
    run(governor, start_s=4, passes=1, share=1.0)
    run(governor, start_s=4.1, passes=3, share=0.5)

    assert run(governor, start_s=6.5, passes=1, share=1.0) == [1]
    assert run(governor, start_s=8.5, passes=1, share=1.0) == [2]


def test_passes_too_short_to_measure_are_ignored() -> None:
    assert set(run(ThreadGovernor(2), start_s=1, passes=20, share=0.1, wall_s=0.001)) == {2}
