"""Ctrl+C in `add`, however early: what was done is told, and that the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

NOTHING = "0 files: 0 added, 0 unchanged, 0 failed, 0 skipped; stopped, run the same command again to go on\n"


def interrupted_while_opening(
    tmp_path: Path, *options: str, times: int = 1
) -> subprocess.CompletedProcess[str]:
    """Interrupt an `add` that waits for its configuration, which a pipe holds back until the signal is sent."""
    config = tmp_path / "config.toml"
    os.mkfifo(config)
    paper = tmp_path / "paper.txt"
    paper.write_text("Some words.")
    command = [sys.executable, "-m", "appliance", "add", str(paper), "--no-vectors", *options]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "APPLIANCE_CONFIG": str(config)}, text=True,
    ) as process:  # fmt: skip
        with config.open("w"):  # opens once the command reads it
            process.send_signal(signal.SIGINT)
        output, notes = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, output, notes)


@pytest.mark.usefixtures("embedder_folder")
def test_an_early_ctrl_c_is_told_what_was_done(tmp_path: Path) -> None:
    stopped = interrupted_while_opening(tmp_path)

    assert (stopped.returncode, stopped.stdout) == (130, NOTHING)
    assert "stopping after the file in work" in stopped.stderr


@pytest.mark.usefixtures("embedder_folder")
def test_json_is_one_object_then_too(tmp_path: Path) -> None:
    stopped = interrupted_while_opening(tmp_path, "--json")

    told = json.loads(stopped.stdout)
    assert (stopped.returncode, told["files"], told["is_stopped"]) == (130, [], True)


@pytest.mark.usefixtures("embedder_folder")
def test_what_was_finished_before_the_store_took_no_more_is_told(tmp_path: Path) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    for number in range(12):
        words = " ".join(f"word{number}x{place}" for place in range(4_000))
        (papers / f"{number:02}.txt").write_text(f"{words}.\n")
    command = [sys.executable, "-m", "appliance", "add", str(papers), "--no-vectors"]
    stopped = subprocess.run(
        ["sh", "-c", 'ulimit -f 1024; exec "$@"', "sh", *command],
        cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    added = [line for line in stopped.stdout.splitlines() if line.startswith("added ")]
    last = stopped.stdout.splitlines()[-1]
    assert stopped.returncode == 1
    assert 0 < len(added) < 12
    assert last.startswith(f"{len(added)} file")
    assert last.endswith("; stopped, run the same command again to go on")
    assert stopped.stderr.startswith("error: ")
