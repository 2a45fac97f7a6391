"""One writer at a time: waiting for a lock of another process, and saying whom it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.core.errors import StorageError
from appliance.storage.lock import LockHolder, WriterLock, read_holder

WaitReporter = Callable[[LockHolder | None], None]

_POLL_S = 0.05


@contextmanager
def exclusive(
    path: Path, *, role: str, timeout_s: float, on_wait: WaitReporter | None = None
) -> Iterator[None]:
    """Hold a lock; wait for it as long as the timeout allows, and report once that there is a wait.

    Raises:
        StorageError: another process still holds it; names that process.
    """
    lock = WriterLock(path, role=role)
    _acquire(lock, path, timeout_s, on_wait)
    try:
        yield
    finally:
        lock.release()


def try_exclusive(path: Path, *, role: str) -> WriterLock | None:
    """Return the acquired lock, or None when another holds it."""
    lock = WriterLock(path, role=role)
    try:
        lock.acquire()
    except StorageError as exc:
        if not _is_held(exc):
            raise
        return None
    return lock


def _acquire(lock: WriterLock, path: Path, timeout_s: float, on_wait: WaitReporter | None) -> None:
    pause = threading.Event()
    give_up_at_s = time.monotonic() + timeout_s
    has_reported = False
    while True:
        try:
            lock.acquire()
            return
        except StorageError as exc:
            if not _is_held(exc) or time.monotonic() >= give_up_at_s:
                raise
        if on_wait is not None and not has_reported:
            has_reported = True
            on_wait(read_holder(path))
        pause.wait(_POLL_S)


def _is_held(exc: StorageError) -> bool:
    """Whether another holds the lock; a lock file that cannot be used has an error of the system as its cause."""
    return exc.__cause__ is None
