"""Running workers are told from what dead ones left behind."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from appliance.cli.ps import running_workers


def runtime_file(folder: Path, pid: int, *, started_at: float | None = None) -> Path:
    facts = {
        "pid": pid,
        "parent_pid": os.getpid(),
        "model": "m",
        "digest": "0" * 64,
        "context_window": 4096,
        "parallel": 4,
        "started_at": time.time() if started_at is None else started_at,
    }
    path = folder / f"{pid}.json"
    path.write_text(json.dumps(facts), encoding="utf-8")
    return path


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    return child.pid


def test_a_live_worker_is_listed_with_its_memory(tmp_path: Path) -> None:
    runtime_file(tmp_path, os.getpid())

    (worker,) = running_workers(tmp_path)

    assert (worker.pid, worker.model, worker.context_window) == (os.getpid(), "m", 4096)
    assert worker.resident_bytes > 2**20


def test_the_file_of_a_dead_worker_is_removed(tmp_path: Path) -> None:
    path = runtime_file(tmp_path, dead_pid())

    assert running_workers(tmp_path) == []
    assert not path.exists()


def test_a_process_that_took_over_the_id_is_no_worker(tmp_path: Path) -> None:
    path = runtime_file(tmp_path, os.getpid(), started_at=time.time() - 10**7)

    assert running_workers(tmp_path) == []
    assert not path.exists()


def test_a_file_that_is_being_written_is_left_alone_and_an_old_broken_one_is_removed(tmp_path: Path) -> None:
    fresh, old = tmp_path / "1.json", tmp_path / "2.json"
    for path in (fresh, old):
        path.write_text('{"pid": ', encoding="utf-8")
    os.utime(old, (0, 0))

    assert running_workers(tmp_path) == []
    assert (fresh.exists(), old.exists()) == (True, False)


@pytest.mark.parametrize("started_at", [math.nan, math.inf, -1.0, 1e308, 99999999999.0])
def test_a_start_that_no_process_can_have_is_not_listed(tmp_path: Path, started_at: float) -> None:
    runtime_file(tmp_path, os.getpid(), started_at=started_at)

    assert running_workers(tmp_path) == []


def test_a_file_nested_without_end_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("[" * 100_000, encoding="utf-8")

    assert running_workers(tmp_path) == []


def test_a_folder_that_is_not_there_holds_no_workers(tmp_path: Path) -> None:
    assert running_workers(tmp_path / "none") == []
