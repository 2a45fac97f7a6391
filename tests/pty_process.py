"""Runs a command with a terminal of its own and keeps every byte it wrote."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

import pytest

from tests.conftest import REPOSITORY


def run_in_pty(command: list[str], keys: bytes = b"", timeout_s: float = 120.0) -> tuple[int, bytes]:
    """Run a command with a terminal of 100 by 30; return its exit code and all it wrote."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    child = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=REPOSITORY,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(terminal)
    os.write(controller, keys)
    written = bytearray()
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        ready, _, _ = select.select([controller], [], [], 0.2)
        if not ready and child.poll() is not None:
            break
        if ready and not _read(controller, written):
            break
    if time.monotonic() >= end_s:
        child.kill()
        pytest.fail(f"it did not leave within {timeout_s:g} s; last: {bytes(written[-500:])!r}")
    code = child.wait()
    os.close(controller)
    return code, bytes(written)


def _read(controller: int, written: bytearray) -> bool:
    try:
        piece = os.read(controller, 65536)
    except OSError as exc:
        if exc.errno == errno.EIO:
            return False
        raise
    written += piece
    return bool(piece)
