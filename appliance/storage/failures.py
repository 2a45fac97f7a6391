"""Turns SQLite and operating system errors into StorageError, once for every caller."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.core.errors import ApplianceError, InternalError, StorageError

_FULL_HINT = (
    "free some space, then try again; nothing was half-written, and reading and `appliance forget` still work"
)
_PRIMARY_CODE_MASK = 0xFF


@contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """Raise what SQLite or the operating system says while `doing` something as a StorageError."""
    try:
        yield
    except sqlite3.Error as exc:
        raise storage_error(exc, path, doing) from exc
    except OSError as exc:
        raise file_error(exc, path, doing) from exc


def storage_error(exc: sqlite3.Error, path: Path, doing: str) -> ApplianceError:
    """Say what an error of SQLite means for the user."""
    code = (getattr(exc, "sqlite_errorcode", None) or 0) & _PRIMARY_CODE_MASK
    message, hint = _explain(code, path)
    if not message:
        return InternalError(f"could not {doing}: {exc}")
    return StorageError(f"could not {doing}: {message}", hint=hint, sqlite=_error_name(exc))


def file_error(exc: OSError, path: Path, doing: str) -> StorageError:
    """Say what an error of the operating system means for the user."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"could not {doing}: the disk that holds {path} is full", hint=_FULL_HINT)
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(
            f"could not {doing}: {path} may not be written ({exc.strerror})",
            hint="make the folder yours to write, or set another data folder",
        )
    return StorageError(
        f"could not {doing}: {exc.strerror or exc} ({path})", hint="check the disk and the path"
    )


def is_io_failure(exc: sqlite3.Error) -> bool:
    """Whether a connection can no longer be trusted: its pages may differ from those on disk."""
    code = (getattr(exc, "sqlite_errorcode", None) or 0) & _PRIMARY_CODE_MASK
    return code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _error_name(exc: sqlite3.Error) -> str:
    return str(getattr(exc, "sqlite_errorname", None) or type(exc).__name__)


def _explain(code: int, path: Path) -> tuple[str, str]:
    match code:
        case sqlite3.SQLITE_FULL:
            return f"the disk that holds {path} is full", _FULL_HINT
        case sqlite3.SQLITE_IOERR:
            return (
                f"the disk reported an error on {path}; the last change may not be saved",
                "check the disk and its free space, then open the program again",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"another process is writing to {path}", "wait for it to finish, then try again"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return (
                f"{path} cannot be opened or written",
                "make the file and its folder yours to write, or set another data folder",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return (
                f"{path} is damaged or not a database",
                "keep a copy of the file, then restore the newest file of the backups folder beside it",
            )
        case _:
            return "", ""
