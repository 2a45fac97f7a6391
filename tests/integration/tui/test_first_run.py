"""The whole first run in a real terminal: open, ask, stop, quit, reopen, find the chat."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

SCRIPT = """
[[model]]
name = "scripted:slow"
[[model.turn]]
steps = [{say = "Paris is the capital of France."}]
[[model.turn]]
steps = [{say = "one two three four five six seven eight nine ten eleven twelve", token_s = 0.4}]
"""
WAIT_S = 60.0


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._name = ""
        self._environment = environment

    def start(self, command: str) -> None:
        self._name = f"appliance-test-{uuid.uuid4().hex[:8]}"
        self._tmux("new-session", "-d", "-s", "main", "-x", "100", "-y", "30", command)

    def keys(self, *keys: str) -> None:
        for key in keys:
            self._tmux("send-keys", "-t", "main", key)

    def type_text(self, text: str) -> None:
        self._tmux("send-keys", "-t", "main", "-l", text)

    def text(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "main")

    def wait_for(self, wanted: str) -> str:
        end_s = time.monotonic() + WAIT_S
        while wanted not in (text := self.text()):
            if time.monotonic() > end_s:
                pytest.fail(f"{wanted!r} did not appear within {WAIT_S:g} s:\n{text}")
            time.sleep(0.1)
        return text

    def kill(self) -> None:
        self._tmux("kill-server", check=False)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        finished = subprocess.run(
            ["tmux", "-L", self._name, "-f", "/dev/null", *arguments],
            capture_output=True,
            text=True,
            check=check,
            env={**os.environ, **self._environment},
        )
        return finished.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal whose programs answer from a script."""
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT, encoding="utf-8")
    terminal = Terminal({"APPLIANCE_SCRIPT": str(script), "APPLIANCE_MODEL": "scripted:slow"})
    yield terminal
    terminal.kill()


def appliance_command() -> str:
    return f"{shlex.quote(sys.executable)} -m appliance; echo left with $?; exec cat"


def test_a_first_run_ends_with_the_chat_found_again(terminal: Terminal) -> None:
    terminal.start(f"sh -c {shlex.quote(appliance_command())}")
    terminal.wait_for("ready")
    terminal.type_text("What is the capital of France?")
    terminal.keys("Enter")
    terminal.wait_for("Paris is the capital")
    terminal.wait_for("reused")
    terminal.type_text("Count slowly")
    terminal.keys("Enter")
    terminal.wait_for("three")
    terminal.keys("Escape")
    terminal.wait_for("stopped")
    terminal.keys("C-q")
    assert "left with 0" in terminal.wait_for("left with")
    terminal.kill()

    terminal.start(f"sh -c {shlex.quote(appliance_command())}")
    terminal.wait_for("ready")
    terminal.keys("F2")
    terminal.wait_for("Chats · 1")
    terminal.type_text("/capital")
    terminal.wait_for("3 found")
    terminal.keys("Enter")
    text = terminal.wait_for("Count slowly")
    assert "stopped" in text
    assert "one two three" in text


def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = f"{shlex.quote(sys.executable)} -m appliance & echo $! > {shlex.quote(str(pid_file))}; fg"
    program = f"set -m; {command}; stty -a | grep -o ' -\\?echo '; echo left; exec cat"
    terminal.start(f"bash -c {shlex.quote(program)}")
    terminal.wait_for("ready")
    os.kill(int(pid_file.read_text()), 15)
    text = terminal.wait_for("left")

    assert " echo" in text
    assert " -echo" not in text
    assert "Ask something" not in text
