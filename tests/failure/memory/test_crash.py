"""`kill -9`, a full disk and a broken disk at the calls that write: nothing that was shown is lost."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.failure.memory.crash_workload import work
from tests.failure.memory.fault_points import FAULTS, count_calls, find_losses, run_with_fault

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace, which injects the faults, is not installed"
)

SAMPLED_POINTS = 25
EXPECTED_RETURNCODES = {"KILL": {-signal.SIGKILL, 0}, "ENOSPC": {0, 3}, "EIO": {0, 3}}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_sampled_writing_calls_loses_nothing_that_was_shown(fault: str, tmp_path: Path) -> None:
    counts = count_calls(tmp_path, work)
    points = [(call, position + 1) for call, number in sorted(counts.items()) for position in range(number)]
    sampled = points[:: max(1, len(points) // SAMPLED_POINTS)]

    outcomes = [(point, *run_with_fault(tmp_path, work, *point, fault)) for point in sampled]

    assert len(sampled) >= SAMPLED_POINTS
    assert sum(len(outcome.promises) for _, _, outcome in outcomes) > SAMPLED_POINTS
    assert {outcome.returncode for _, _, outcome in outcomes} <= EXPECTED_RETURNCODES[fault]
    assert {point: losses for point, store, outcome in outcomes
            if (losses := find_losses(store, outcome.promises))} == {}  # fmt: skip


def test_the_check_for_losses_notices_a_lost_word_and_a_lost_question(tmp_path: Path) -> None:
    folder = tmp_path / "control"
    folder.mkdir()
    store, outcome = run_with_fault(folder, work, "pwrite64", 300, "KILL")
    more = [{**outcome.promises[-1], "text": outcome.promises[-1]["text"] + " never written"}]
    other = [{"kind": "asked", "turn": "0" * 32, "text": "never asked"}]

    assert find_losses(store, outcome.promises) == []
    assert any("lost shown" in loss for loss in find_losses(store, more))
    assert any("lost asked" in loss for loss in find_losses(store, [*outcome.promises, *other])[:1])
