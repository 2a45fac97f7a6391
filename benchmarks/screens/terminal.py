"""A program in a pseudo-terminal: what it writes and when, and the CPU time of the thread that draws."""

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from appliance.core.errors import InternalError

_KEPT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What a key set off: when the first and the last byte came, how many, and the CPU time it took."""

    first_s: float
    last_s: float
    cpu_s: float
    written_bytes: int


@dataclass(slots=True, kw_only=True)
class Terminal:
    """One running program. Its output is read whenever something is waited for."""

    process: subprocess.Popen[bytes]
    controller: int
    written: bytearray = field(default_factory=bytearray)
    written_bytes: int = 0

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self.controller, keys.encode())

    def read(self, timeout_s: float) -> bytes:
        """Return what is written within a time; empty when that is nothing."""
        if not select.select([self.controller], [], [], max(0.0, timeout_s))[0]:
            return b""
        try:
            piece = os.read(self.controller, 1 << 16)
        except OSError as exc:
            if exc.errno == errno.EIO:
                return b""
            raise
        self.written += piece
        self.written_bytes += len(piece)
        del self.written[:-_KEPT_BYTES]
        return piece

    def wait_for(self, text: str, timeout_s: float = 60.0) -> float:
        """Read until a text was written since the last `forget`; return when it was."""
        end_s = time.perf_counter() + timeout_s
        while text.encode() not in self.written:
            if time.perf_counter() > end_s or self.process.poll() is not None:
                raise InternalError(f"{text!r} did not appear; last: {bytes(self.written[-400:])!r}")
            self.read(0.05)
        return time.perf_counter()

    def forget(self) -> None:
        """Begin to look for texts from here on."""
        self.written.clear()

    def settle(self, quiet_s: float = 0.3, timeout_s: float = 20.0) -> None:
        """Read until nothing is written for a while."""
        end_s = time.perf_counter() + timeout_s
        while self.read(quiet_s) and time.perf_counter() < end_s:
            pass

    def burst(self, keys: str, quiet_s: float = 0.06, timeout_s: float = 5.0) -> Burst | None:
        """Press keys and read all they set off; None when nothing was written."""
        cpu_s, began_s = self.drawing_cpu_s(), time.perf_counter()
        before_bytes = self.written_bytes
        self.send(keys)
        first_s = last_s = 0.0
        while time.perf_counter() - began_s < timeout_s:
            if not self.read(quiet_s if first_s else timeout_s):
                break
            last_s = time.perf_counter() - began_s
            first_s = first_s or last_s
        if not first_s:
            return None
        return Burst(
            first_s=first_s,
            last_s=last_s,
            cpu_s=self.drawing_cpu_s() - cpu_s,
            written_bytes=self.written_bytes - before_bytes,
        )

    def drawing_cpu_s(self) -> float:
        """Return the CPU time of the main thread, which draws, so far."""
        pid = self.process.pid
        try:
            running_ns = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0]
        except OSError:
            main = next(thread for thread in psutil.Process(pid).threads() if thread.id == pid)
            return float(main.user_time + main.system_time)
        return int(running_ns) / 1e9

    def cpu_s(self) -> float:
        """Return the CPU time of the whole program so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        """Let the program leave; end it when it does not."""
        if self.process.poll() is None:
            self.send("\x11")
            end_s = time.perf_counter() + 15
            while self.process.poll() is None and time.perf_counter() < end_s:
                self.read(0.1)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.controller)


def start(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], columns: int, rows: int
) -> Terminal:
    """Start a command in a folder, with a terminal of this size."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env={**os.environ, **environment, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(terminal)
    return Terminal(process=process, controller=controller)
