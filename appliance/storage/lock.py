"""The writer lock: one long-lived process holds a data folder; a second one learns who and what to do."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from appliance.core.errors import StorageError
from appliance.storage.failures import translated

# Fields 3 and 22 of /proc/PID/stat, counted after the command in parentheses.
_STATE_FIELD = 0
_START_TICKS_FIELD = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """Who holds a lock: process id, what it does, when the process began (epoch seconds, 0 if unknown)."""

    pid: int
    role: str
    started_at_s: float


class WriterLock:
    """An exclusive `flock` on a file that names its holder; freed by the kernel when the process dies.

    Use as a context manager, or `acquire` and `release`. The lock is per process: threads of one process
    share it, so take it once, where the process decides to be the long-lived writer.
    """

    def __init__(self, path: Path, *, role: str) -> None:
        self._path = path
        self._role = role
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the lock or say at once who holds it.

        Raises:
            StorageError: another process (or another lock object of this one) holds it.
        """
        if self._descriptor is not None:
            return
        with translated(self._path, "take the writer lock"):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise self._held_error() from None
            except OSError:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
            self._write_holder(descriptor)

    def release(self) -> None:
        """Free the lock; the file stays, for removing it would let two processes lock two files."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        os.close(descriptor)

    def __enter__(self) -> WriterLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _write_holder(self, descriptor: int) -> None:
        holder = {"pid": os.getpid(), "role": self._role, "started_at_s": process_started_at_s(os.getpid())}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)

    def _held_error(self) -> StorageError:
        holder = read_holder(self._path)
        if holder is None:
            return StorageError(
                f"another process writes to {self._path.parent}", hint="close it, or open read-only"
            )
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.started_at_s))
        return StorageError(
            f"{self._path.parent} is already open for writing by `appliance {holder.role}`, "
            f"process {holder.pid}, running since {since}",
            hint=f"use that one, or end it (`kill {holder.pid}`), or open this one read-only",
            pid=holder.pid,
            role=holder.role,
        )


def read_holder(path: Path) -> LockHolder | None:
    """Return who wrote the lock file last, or None when it cannot be read; it may have ended since."""
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        return LockHolder(
            pid=int(stated["pid"]), role=str(stated["role"]), started_at_s=float(stated["started_at_s"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def process_mark(pid: int | None = None) -> str:
    """Name a process so that a later one with the same id is not taken for it."""
    pid = os.getpid() if pid is None else pid
    return f"{pid}:{_stat_field(pid, _START_TICKS_FIELD)}:{_boot_id()}"


def is_alive(mark: str) -> bool:
    """Whether the process that a mark names still runs."""
    pid_text, _, _ = mark.partition(":")
    if not pid_text.isdigit() or int(pid_text) == 0:
        return False
    pid = int(pid_text)
    return is_running(pid) and process_mark(pid) == mark


def is_running(pid: int) -> bool:
    """Whether a process with this id runs now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _stat_field(pid, _STATE_FIELD) != "Z"


def process_started_at_s(pid: int) -> float:
    """Epoch seconds at which a process began; 0 where /proc does not tell."""
    ticks = _stat_field(pid, _START_TICKS_FIELD)
    try:
        uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        return time.time() - uptime_s + int(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _stat_field(pid: int, field: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return stat.rpartition(")")[2].split()[field]
    except (OSError, IndexError):
        return ""


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
