"""What a process that reads untrusted files can no longer do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.documents.parser import DocumentParser
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are built from Linux parts")

CONFINE = """
import os, socket, sys
from appliance.documents import sandbox
from appliance.documents.limits import Limits
mapped = sandbox.mapped_bytes()
sandbox.give_up_privileges()
sandbox.enter_network_namespace()
assert sandbox.allow_only(())
sandbox.bound_cost(Limits(memory_bytes=200 << 20), mapped)
assert sandbox.refuse_programs()
"""


def attempt(code: str, argument: str = "") -> str:
    """Run code inside the walls and return the error it ends with, or `done`."""
    report = "except BaseException as exc:\n    print(type(exc).__name__)\nelse:\n    print('done')"
    script = f"{CONFINE}\ntry:\n    {code}\n{report}"
    finished = subprocess.run(
        [sys.executable, "-c", script, argument],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return finished.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket()",
        "socket.socketpair()",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "open(sys.argv[1])",
        "open(sys.argv[1], 'a')",
        "os.listdir('/')",
        "os.unlink(sys.argv[1])",
        "os.mkdir(sys.argv[1] + '.folder')",
        "open('/etc/passwd')",
        "open('/proc/self/environ')",
        "os.kill(os.getppid(), 0)",
    ],
)
def test_a_confined_process_may_not(code: str, tmp_path: Path) -> None:
    target = tmp_path / "other people's file"
    target.write_text("private")

    assert attempt(code, str(target)) == "PermissionError"
    assert target.read_text() == "private"


def test_memory_beyond_the_limit_is_refused() -> None:
    assert attempt("bytearray(400 << 20)") == "MemoryError"


def test_memory_within_the_limit_is_given() -> None:
    assert attempt("bytearray(50 << 20)") == "done"


def test_the_parser_says_which_walls_stand() -> None:
    with DocumentParser() as parser:
        isolation = parser.isolation()

    assert isolation.files == "landlock"
    assert isolation.programs == "seccomp"
    assert "seccomp" in isolation.network
