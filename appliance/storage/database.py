"""The engine: one SQLite file, its connections, transactions, migrations, backups and checks.

Durability. WAL with `synchronous=FULL`: a transaction whose `with` block has ended survives `kill -9` and,
on a disk that keeps its word, a power cut. `transaction(is_synced=False)` skips the fsync: what it wrote
survives `kill -9` at once, and a power cut after the next synced transaction of any process. After a
failed write or fsync the connection is thrown away and opened again, because its pages may differ from
those on disk; whether that last transaction is stored is then not known, and StorageError says so.

Threads. Calls are synchronous; async code crosses over with `asyncio.to_thread`. There is one writing
connection behind a lock, so threads of a process queue up for `transaction()`; `read()` takes a connection
from a pool that grows with the number of readers at one time, and sees a stable snapshot that no writer
disturbs. A connection is used by one thread at a time and never leaves its `with` block. Do not wait for a
model or the network inside `transaction()`.

Processes. SQLite serialises writers of several processes. Each transaction is `BEGIN IMMEDIATE` and waits
up to `busy_timeout_s`, so `appliance ask`, `appliance add` and `appliance chats rename` write while a chat
is open elsewhere, and nobody notices. What must exist once is the long-lived process that streams answers
into chats (terminal UI, line chat, server), because it alone may declare unfinished answers stopped: it
takes `lock_writer(role)`. The second one gets a StorageError with the process id of the first and the way
out; it may still open read-only. Readers need no lock. Connections must not be carried over a fork.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from appliance.core.errors import InternalError, StorageError
from appliance.storage import backups, schema
from appliance.storage.failures import is_io_failure, storage_error, translated
from appliance.storage.lock import WriterLock, read_holder
from appliance.storage.schema import Schema

Mode = Literal["write", "read"]

STORE_FILE = "appliance.db"
"""The name of the one database in the data folder."""

_BUSY_TIMEOUT_S = 10.0


class Database:
    """One SQLite file, opened for writing (created and migrated when needed) or for reading only.

    Raises:
        StorageError: the path cannot be used, is damaged, or was written by a newer program.
    """

    def __init__(
        self,
        path: Path,
        schemas: Sequence[Schema] = (),
        *,
        mode: Mode = "write",
        busy_timeout_s: float = _BUSY_TIMEOUT_S,
    ) -> None:
        self.path = path
        self.mode: Mode = mode
        self._busy_timeout_s = busy_timeout_s
        self._write_lock = threading.Lock()
        self._write_thread: int | None = None
        self._writers: dict[bool, sqlite3.Connection] = {}
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._is_closed = False
        try:
            self._open(schemas)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Iterator[sqlite3.Connection]:
        """Write: commits when the block ends, rolls everything back when it raises.

        Without `is_synced` the commit is not forced to the disk: it survives the process, not a power cut.

        Raises:
            StorageError: disk full, disk error, another process wrote for longer than the timeout.
        """
        if self.mode == "read":
            raise StorageError(
                f"{self.path} is open for reading only", hint="close the process that writes, then open again"
            )
        with self._own_writer():
            yield from self._transact(is_synced)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Read from one stable snapshot; writing through this connection fails."""
        try:
            connection = self._take_reader()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                _end_quietly(connection)
                self._give_back(connection)
        except sqlite3.Error as exc:
            raise storage_error(exc, self.path, "read the store") from exc

    def migrate(self, schemas: Sequence[Schema]) -> None:
        """Bring the tables of these features up to date, with a backup first when data is touched."""
        with self.read() as connection:
            if not schema.pending(schemas, schema.read_versions(connection)):
                return
        with self.transaction() as connection:
            versions = schema.read_versions(connection)
            if schema.changes_existing_tables(schemas, versions):
                label = "-".join(f"{name}{version}" for name, version in sorted(versions.items()))
                with translated(self.path, "back up the store before a migration"):
                    backups.back_up(self.path, label=label)
            schema.migrate(connection, schemas)

    def back_up(self, label: str = "manual") -> Path:
        """Write a consistent copy into the backups folder while others go on working; return its path."""
        with translated(self.path, "back up the store"):
            return backups.back_up(self.path, label=label)

    def check_integrity(self) -> tuple[str, ...]:
        """Return what SQLite finds wrong with the file and its references; empty when all is well."""
        with self.read() as connection:
            try:
                findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
                if findings != ["ok"]:
                    return tuple(findings)
                dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
            except sqlite3.DatabaseError as exc:
                if not is_io_failure(exc):
                    raise
                return (str(exc),)
        return tuple(f"row {row[1]} of {row[0]} points to a missing row of {row[2]}" for row in dangling)

    def scrub(self) -> None:
        """Rewrite the file without free pages and empty the WAL, so that deleted bytes are gone.

        Raises:
            StorageError: a reader still holds an old snapshot; the bytes are not gone yet.
        """
        with self._own_writer(), translated(self.path, "scrub deleted data"):
            with self._readers_lock:
                while self._readers:
                    self._readers.pop().close()
            self._drop_writers()
            connection = self._writing_connection(True)
            connection.execute("VACUUM")
            is_blocked, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_blocked:
            raise StorageError(
                f"{self.path} is being read, so deleted data could not be scrubbed from its log",
                hint="close other programs that use it, then run the command again",
            )

    def lock_writer(self, role: str) -> WriterLock:
        """Return the acquired lock of the long-lived writer of this file.

        Raises:
            StorageError: another process holds it; the message names it.
        """
        lock = WriterLock(self.lock_path, role=role)
        lock.acquire()
        return lock

    @property
    def lock_path(self) -> Path:
        """The file that the long-lived writer locks."""
        return self.path.with_name(self.path.name + ".lock")

    def close(self) -> None:
        """Close every connection; a transaction in progress is waited for."""
        with self._own_writer(), self._readers_lock:
            self._is_closed = True
            while self._readers:
                self._readers.pop().close()
            self._drop_writers()

    def _open(self, schemas: Sequence[Schema]) -> None:
        if self.mode == "read":
            self._check_readable(schemas)
            return
        with translated(self.path, "create the store"):
            _create_private(self.path)
            # Held until `close`: the last connection to close must be a writing one to fold the log away.
            self._writing_connection(True)
        self.migrate(schemas)

    @contextmanager
    def _own_writer(self) -> Iterator[None]:
        if self._write_thread == threading.get_ident():
            raise InternalError("a transaction was begun inside a transaction of the same thread")
        if not self._write_lock.acquire(timeout=self._busy_timeout_s):
            raise StorageError(
                f"another thread of this process has been writing to {self.path} "
                f"for {self._busy_timeout_s:g} s",
                hint="try again when it has finished",
            )
        self._write_thread = threading.get_ident()
        try:
            yield
        finally:
            self._write_thread = None
            self._write_lock.release()

    def _transact(self, is_synced: bool) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._writing_connection(is_synced)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                _end_quietly(connection)
                raise
        except sqlite3.Error as exc:
            if is_io_failure(exc):
                self._drop_writers()
            raise self._named(exc) from exc

    def _named(self, exc: sqlite3.Error) -> Exception:
        error = storage_error(exc, self.path, "write to the store")
        holder = read_holder(self.lock_path)
        is_busy = getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        if is_busy and holder is not None and holder.pid != os.getpid():
            error.hint += f"; `appliance {holder.role}` (process {holder.pid}) uses the store"
        return error

    def _writing_connection(self, is_synced: bool) -> sqlite3.Connection:
        if self._is_closed:
            raise InternalError("the store was used after it was closed")
        if is_synced not in self._writers:
            connection = connect(self.path, "write", self._busy_timeout_s)
            connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            self._writers[is_synced] = connection
        return self._writers[is_synced]

    def _drop_writers(self) -> None:
        while self._writers:
            with suppress(sqlite3.Error):
                self._writers.popitem()[1].close()

    def _take_reader(self) -> sqlite3.Connection:
        with self._readers_lock:
            if self._is_closed:
                raise InternalError("the store was used after it was closed")
            if self._readers:
                return self._readers.pop()
        return connect(self.path, "read", self._busy_timeout_s)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._readers_lock:
            if self._is_closed:
                connection.close()
                return
            self._readers.append(connection)

    def _check_readable(self, schemas: Sequence[Schema]) -> None:
        if not self.path.exists():
            raise StorageError(
                f"there is no store at {self.path} yet", hint="start a chat or add a document first"
            )
        with self.read() as connection:
            outdated = schema.pending(schemas, schema.read_versions(connection))
        if outdated:
            raise StorageError(
                f"the store's {outdated[0].feature} tables are older than this program and it is open for "
                "reading only",
                hint="open it once for writing, so that it is migrated",
            )


def connect(path: Path, mode: Mode, busy_timeout_s: float) -> sqlite3.Connection:
    """Open one connection with the settings every connection must have."""
    uri = path.absolute().as_uri() + ("?mode=rw" if mode == "write" else "?mode=ro")
    connection = sqlite3.connect(
        uri, uri=True, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in ("foreign_keys=ON", "trusted_schema=OFF", "cell_size_check=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        if mode == "read":
            connection.execute("PRAGMA query_only=ON")
            return connection
        _enter_wal(connection, busy_timeout_s)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_size_limit=4194304")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _enter_wal(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    # The switch to WAL does not honour the busy handler when two processes create the file at one time.
    give_up_at_s = time.monotonic() + busy_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as exc:
            is_busy = (exc.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > give_up_at_s:
                raise
            time.sleep(0.01)


def _end_quietly(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _create_private(path: Path) -> None:
    """Make an empty file that only its user may read, unless the file is there.

    A file that is there is not opened: closing it would drop every lock that SQLite holds on it in this
    process (POSIX has them so), and another process would then remove the log that is being written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
