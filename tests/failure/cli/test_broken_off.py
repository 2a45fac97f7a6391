"""Ctrl+C, a reader that goes away, a full disk: each ends in its own exit code, with the text kept."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ASK = [sys.executable, "-m", "appliance", "ask", "-m", "scripted:slow", "go"]
PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def started(command: list[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def read_until(process: subprocess.Popen[bytes], text: bytes) -> bytes:
    assert process.stdout is not None
    seen = b""
    while text not in seen:
        piece = os.read(process.stdout.fileno(), 64)
        assert piece, f"standard output ended after {seen!r}"
        seen += piece
    return seen


def test_ctrl_c_stops_the_answer_keeps_the_text_and_exits_with_130() -> None:
    with started(ASK) as process:
        seen = read_until(process, b"two")
        process.send_signal(signal.SIGINT)
        rest, notes = process.communicate(timeout=30)

    assert process.returncode == 130
    assert b"ten" not in seen + rest
    assert notes == b"interrupted\n"


def test_ctrl_c_with_json_still_prints_one_object() -> None:
    command = [*ASK, "--json", "--reasoning"]
    with started(command) as process:
        first_word_s = 1.5
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=first_word_s)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)

    answer = json.loads(output)
    assert process.returncode == 130
    assert answer["finish_reason"] == "cancelled"
    assert answer["failure"]["kind"] == "cancelled"
    assert answer["usage"] is None
    assert "ten" not in answer["text"]


def test_a_reader_that_goes_away_ends_the_answer_quietly() -> None:
    with started(ASK) as process:
        read_until(process, b"one")
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, notes = process.communicate(timeout=30)

    assert (process.returncode, notes) == (141, b"")


def test_help_into_a_closed_pipe_is_quiet() -> None:
    with started([sys.executable, "-m", "appliance", "--help"]) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, notes = process.communicate(timeout=30)

    assert notes == b""
    assert process.returncode in {0, 141}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_an_error_that_says_so() -> None:
    with Path("/dev/full").open("wb") as full:
        finished = subprocess.run(
            ASK, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
            timeout=60, check=False,
        )  # fmt: skip

    assert finished.returncode == 1
    assert b"No space left on device" in finished.stderr
    assert b"Traceback" not in finished.stderr


def test_ctrl_c_in_a_chat_stops_one_answer_and_the_next_message_is_answered() -> None:
    command = [sys.executable, "-m", "appliance", "chat", "-m", "scripted:slow"]
    with started(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        read_until(process, b"two")
        process.send_signal(signal.SIGINT)
        output, notes = process.communicate(b"/model scripted:echo\nstill here\n", timeout=30)

    assert output.endswith(b"\nstill here\n")
    assert b"interrupted" in notes
    assert process.returncode == 0
