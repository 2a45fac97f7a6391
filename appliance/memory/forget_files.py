"""Forgets on the disk: scrubs the database file, removes its old backups, and searches files byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from appliance.core.forgetting import ForgetHit, ForgetProbe, ForgetReport, ForgetTarget
from appliance.memory.byte_scan import files_below, scan_files
from appliance.storage.backups import list_backups, unfinished_backups
from appliance.storage.database import Database
from appliance.storage.failures import translated

_DISK_NOTE = (
    "file systems and SSDs may keep old blocks that no program can reach; only an encrypted disk hides those"
)


class StoreFile:
    """The file of the database with its log and backups, as the last `Forgettable` of a forgetting."""

    name = "database file"

    def __init__(self, database: Database) -> None:
        self._database = database

    def forget(self, target: ForgetTarget) -> ForgetReport:  # noqa: ARG002
        """Rewrite the full-text indexes and the file without deleted bytes; remove the backups.

        A backup holds what the store held when it was made, whatever the target is.
        """
        backups = [*list_backups(self._database.path), *unfinished_backups(self._database.path)]
        with translated(self._database.path, "remove old backups"):
            for backup in backups:
                backup.unlink(missing_ok=True)
        with self._database.transaction() as connection:
            indexes = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND lower(sql) LIKE '%using fts5%'"
            ).fetchall()
            for (index,) in indexes:
                connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608
        self._database.scrub()
        removed = {"backups": len(backups)} if backups else {}
        return ForgetReport(store=self.name, removed=removed, notes=(_DISK_NOTE,))

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        """Search the bytes of the database, its log and its backups."""
        path = self._database.path
        paths = [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))]
        return _probe(self.name, [*paths, *list_backups(path)], needles)


class SearchedFolder:
    """Files that may hold traces, such as logs and caches: searched, and emptied by their owner."""

    def __init__(
        self, name: str, folder: Path, *, clear: Callable[[ForgetTarget], int] | None = None
    ) -> None:
        self.name = name
        self._folder = folder
        self._clear = clear

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Let the owner of the folder remove what belongs to the target; without one, nothing is removed."""
        count = self._clear(target) if self._clear is not None else 0
        return ForgetReport(store=self.name, removed={"files": count} if count else {})

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        """Search the bytes of every file below the folder."""
        return _probe(self.name, files_below(self._folder) if self._folder.is_dir() else [], needles)


def _probe(name: str, paths: Sequence[Path], needles: Sequence[str]) -> ForgetProbe:
    existing = [path for path in paths if path.exists()]
    hits = tuple(
        ForgetHit(store=name, place=f"{hit.path} as {hit.form}", needle=hit.needle, kind="bytes")
        for hit in scan_files(existing, needles)
    )
    return ForgetProbe(store=name, checked=tuple(str(path) for path in existing), hits=hits)
