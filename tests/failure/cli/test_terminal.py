"""In a real terminal: what a model writes obeys nothing, and the chat is left with Ctrl+D."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.conftest import REPOSITORY

HOSTILE = (b"\x1b[31m", b"\x1b]52", b"\x07", "\u202e".encode())


class TerminalProcess:
    """A command whose standard streams are one pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self._main, side = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "appliance", *arguments],
            stdin=side, stdout=side, stderr=side, cwd=REPOSITORY, start_new_session=True,
            env={**os.environ, "TERM": "dumb"},
        )  # fmt: skip
        os.close(side)
        self.output = b""

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def read_until(self, text: bytes, limit_s: float = 30.0) -> None:
        end = time.monotonic() + limit_s
        while text not in self.output:
            assert select.select([self._main], [], [], end - time.monotonic())[0], self.output
            self.output += self._read()

    def shows(self, text: bytes, within_s: float) -> bool:
        if text not in self.output and select.select([self._main], [], [], within_s)[0]:
            self.output += self._read()
        return text in self.output

    def read_all(self) -> bytes:
        while piece := self._read():
            self.output += piece
        return self.output

    def _read(self) -> bytes:
        try:
            return os.read(self._main, 4096)
        except OSError:  # the other side is closed
            return b""

    def close(self) -> int:
        code = self.process.wait(timeout=30)
        os.close(self._main)
        return code


def test_an_answer_in_a_terminal_is_cleaned_and_ends_its_line() -> None:
    terminal = TerminalProcess("ask", "-m", "scripted:hostile", "go")

    output = terminal.read_all()

    assert terminal.close() == 0
    assert b"red [31m ]52;c;aGk=  end\r\n" in output
    assert [sequence for sequence in HOSTILE if sequence in output] == []


def test_json_in_a_terminal_is_escaped() -> None:
    terminal = TerminalProcess("ask", "-m", "scripted:hostile", "--json", "go")

    output = terminal.read_all()

    assert terminal.close() == 0
    assert b"\\u202e end" in output
    assert [sequence for sequence in HOSTILE if sequence in output] == []


@pytest.mark.parametrize("arguments", [("chat", "-m", "scripted:echo"), ("--set", "model=scripted:echo")])
def test_a_chat_in_a_terminal_prompts_answers_and_leaves_with_ctrl_d(arguments: tuple[str, ...]) -> None:
    terminal = TerminalProcess(*arguments)
    terminal.read_until(b">>> ")
    terminal.type("hello out there\n")
    terminal.read_until(b"hello out there\r\n>>> ")
    terminal.type("\x04")

    output = terminal.read_all()

    assert terminal.close() == 0
    assert b"/help lists commands" in output
    assert output.count(b"hello out there") == 2


def test_ctrl_c_at_the_prompt_leaves_nothing_but_a_hint() -> None:
    terminal = TerminalProcess("chat", "-m", "scripted:echo")
    terminal.read_until(b">>> ")
    # Readline notices a signal that comes just before it waits only at the next key or signal.
    for _ in range(10):
        os.kill(terminal.process.pid, 2)
        if terminal.shows(b"Ctrl+D or /exit leaves", within_s=3.0):
            break
    terminal.type("still here\n")
    terminal.read_until(b"still here\r\n>>> ")
    terminal.type("/exit\n")
    terminal.read_all()

    assert terminal.close() == 0
