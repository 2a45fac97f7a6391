"""Opens one file without ever blocking on it, and reads what identifies its content."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import DocumentError
from appliance.documents.limits import Limits
from appliance.documents.names import shown_name, storable_name
from appliance.documents.reasons import Reason, document_error

_REASONS: dict[int, Reason] = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.ENAMETOOLONG: "not_found",
    errno.ELOOP: "not_found",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A regular file, open for reading."""

    descriptor: int
    name: str
    shown: str
    size_bytes: int
    sha256: str
    _seen: tuple[int, int]

    def check_unchanged(self) -> None:
        """Make sure that what was hashed is what was read.

        Raises:
            DocumentError: the file changed in between.
        """
        if _version(os.fstat(self.descriptor)) != self._seen:
            raise document_error("changed_while_reading", f"{self.shown} changed while it was read")


@contextmanager
def opened(path: Path, limits: Limits) -> Iterator[OpenFile]:
    """Open a regular file and hash it.

    Raises:
        DocumentError: it is missing, no regular file, unreadable, empty or too large.
    """
    shown = shown_name(path.name)
    try:
        descriptor = _open_regular(path, shown)
    except (OSError, ValueError) as exc:
        raise os_error(exc, shown) from exc
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise document_error("not_a_file", f"{shown} is not a regular file")
        if status.st_size > limits.file_bytes:
            raise document_error(
                "too_large", f"{shown} has {status.st_size:,} bytes, the limit is {limits.file_bytes:,}"
            )
        if status.st_size == 0:
            raise document_error("empty", f"{shown} is empty")
        try:
            digest = _sha256(descriptor)
        except OSError as exc:
            raise os_error(exc, shown) from exc
        yield OpenFile(
            descriptor=descriptor,
            name=storable_name(path.name),
            shown=shown,
            size_bytes=status.st_size,
            sha256=digest,
            _seen=_version(status),
        )
    finally:
        os.close(descriptor)


def os_error(exc: OSError | ValueError, shown: str) -> DocumentError:
    """The document error of a failed system call."""
    if isinstance(exc, ValueError):
        return document_error("not_found", f"{shown} is no possible file name")
    reason = _REASONS.get(exc.errno or 0, "io_error")
    detail = (
        "it is a link that leads to itself"
        if exc.errno == errno.ELOOP
        else (exc.strerror or str(exc)).lower()
    )
    return document_error(reason, f"{shown} cannot be read: {detail}")


def _open_regular(path: Path, shown: str) -> int:
    # Looked at before it is opened: opening a device can have effects of its own.
    if not stat.S_ISREG(path.stat().st_mode):
        raise document_error("not_a_file", f"{shown} is not a regular file")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def _sha256(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    os.lseek(descriptor, 0, os.SEEK_SET)
    return digest


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
