"""Consistent copies of the database beside it, the newest few kept."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from appliance.storage.lock import is_running

KEPT_BACKUPS = 5
_UNFINISHED = ".partial"


def back_up(path: Path, *, label: str) -> Path:
    """Copy the database with SQLite's online backup; the copy appears whole or not at all."""
    folder = backups_folder(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / _next_name(path, label)
    for left_over in unfinished_backups(path):
        left_over.unlink(missing_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}{_UNFINISHED}")
    try:
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        _copy(path, unfinished)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync(folder)
    for old in list_backups(path)[:-KEPT_BACKUPS]:
        old.unlink(missing_ok=True)
    return target


def backups_folder(path: Path) -> Path:
    """Where the copies of a database lie."""
    return path.parent / "backups"


def list_backups(path: Path) -> list[Path]:
    """Return the copies of a database, oldest first."""
    return sorted(backups_folder(path).glob(f"{path.stem}-[0-9][0-9][0-9][0-9][0-9][0-9]-*.db"))


def unfinished_backups(path: Path) -> list[Path]:
    """Return the beginnings of copies whose writers died."""
    found: list[Path] = []
    for each in backups_folder(path).glob(f"{path.stem}-*{_UNFINISHED}*"):
        writer = re.search(rf"\.(\d+){_UNFINISHED}", each.name)
        if writer is None or not is_running(int(writer[1])):
            found.append(each)
    return found


def _next_name(path: Path, label: str) -> str:
    """Number the copies, for clocks may jump."""
    newest = next(reversed(list_backups(path)), None)
    number = int(newest.name[len(path.stem) + 1 :].split("-", 1)[0]) + 1 if newest else 1
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    safe_label = re.sub(r"[^a-z0-9-]+", "-", label.lower())[:80] or "copy"
    return f"{path.stem}-{number:06}-{stamp}-{safe_label}.db"


def _copy(source_path: Path, target_path: Path) -> None:
    with (
        closing(sqlite3.connect(source_path.absolute().as_uri() + "?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target_path, isolation_level=None)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")
    _sync(target_path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
