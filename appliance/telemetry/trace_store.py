"""Spans in a SQLite file of their own: kept within an age and a size, read back as recent requests and trees."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from appliance.core.errors import InvalidRequestError, StorageError
from appliance.telemetry.spans import AttributeValue, SpanRecord, SpanStatus

TRACES_FILE = "traces.db"

_VERSION = 1
_BUSY_TIMEOUT_S = 5.0
_SPANS_BETWEEN_PRUNES = 2000
_DAY_NS = 86_400 * 10**9
_COLUMNS = "trace_id, span_id, parent_id, name, owner, request_id, start_ns, duration_ns, status, attributes, content"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS spans (
    trace_id TEXT NOT NULL, span_id TEXT NOT NULL, parent_id TEXT NOT NULL, name TEXT NOT NULL,
    owner TEXT NOT NULL, request_id TEXT NOT NULL, start_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
    status TEXT NOT NULL, attributes TEXT NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (trace_id, span_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spans_by_request ON spans (request_id);
CREATE INDEX IF NOT EXISTS spans_by_start ON spans (start_ns);
CREATE INDEX IF NOT EXISTS spans_by_owner ON spans (owner, start_ns);
PRAGMA user_version = {_VERSION};
"""


class TraceStore:
    """The file of spans. Any number of processes may write it at one time.

    Args:
        keep_days: spans older than this go.
        keep_bytes: the oldest spans go when the file holds more.

    Raises:
        StorageError: the file cannot be created, or is no store of traces.
    """

    def __init__(self, path: Path, *, keep_days: float = 14, keep_bytes: int = 64 << 20) -> None:
        self.path = path
        self._keep_ns = round(keep_days * _DAY_NS)
        self._keep_bytes = keep_bytes
        self._spans_until_prune = 0
        with _translated(path):
            self._connection = _open(path)

    def export(self, records: Sequence[SpanRecord]) -> None:
        """Keep records; now and then, remove what is too old or too much.

        Raises:
            StorageError: they could not be written.
        """
        rows = [_row(record) for record in records]
        with self._transaction() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO spans ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
                rows,
            )
        self._spans_until_prune -= len(rows)
        if self._spans_until_prune <= 0:
            self._spans_until_prune = _SPANS_BETWEEN_PRUNES
            self.prune()

    def prune(self) -> None:
        """Remove spans beyond the age, and the oldest while there is more than the size allows."""
        self.delete("start_ns < ?", (time.time_ns() - self._keep_ns,))
        while self._used_bytes() > self._keep_bytes and self._delete_oldest():
            pass
        with _translated(self.path):
            # Through `execute` it would free one page only: that stops at the first step without a row.
            self._connection.executescript("PRAGMA incremental_vacuum")

    def recent(self, *, limit: int, owner: str | None = None) -> list[SpanRecord]:
        """Return the roots of the latest traces, newest first."""
        condition, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
        return self._select(
            f"WHERE parent_id = ''{condition} ORDER BY start_ns DESC LIMIT ?", (*values, limit)
        )

    def trace(self, identifier: str, *, owner: str | None = None) -> list[SpanRecord]:
        """Return the spans of the one trace whose id, or whose request's id, begins so; earliest first.

        Raises:
            InvalidRequestError: no trace or several begin so.
        """
        trace_id = self._resolve(identifier.strip().lower(), identifier.strip(), owner)
        return self._select("WHERE trace_id = ? ORDER BY start_ns, duration_ns DESC", (trace_id,))

    def delete(self, condition: str, values: Sequence[str | int]) -> int:
        """Remove whole traces that have a span under the condition; return how many traces went."""
        with self._transaction() as connection:
            trace_ids = connection.execute(
                f"SELECT DISTINCT trace_id FROM spans WHERE {condition}",  # noqa: S608  our own text
                tuple(values),
            ).fetchall()
            connection.executemany("DELETE FROM spans WHERE trace_id = ?", trace_ids)
        return len(trace_ids)

    def with_content(self, owner: str) -> Iterator[SpanRecord]:
        """Yield an owner's spans that hold texts."""
        yield from self._select("WHERE owner = ? AND content != '{}'", (owner,))

    def scrub(self) -> None:
        """Rewrite the file without free pages, so that deleted bytes are gone.

        Raises:
            StorageError: another process reads the file.
        """
        with _translated(self.path):
            self._connection.execute("VACUUM")
            is_blocked, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_blocked:
            raise StorageError(
                f"{self.path} is in use, so deleted traces could not be scrubbed from its log",
                hint="close other programs of the appliance, then run the command again",
            )

    def close(self) -> None:
        """Close the file."""
        with _translated(self.path):
            self._connection.close()

    def _resolve(self, lower: str, exact: str, owner: str | None) -> str:
        condition = "(substr(trace_id, 1, ?) = ? OR substr(request_id, 1, ?) = ?)"
        values = [len(lower), lower, len(exact), exact]
        if owner is not None:
            condition, values = f"{condition} AND owner = ?", [*values, owner]
        with _translated(self.path):
            rows = self._connection.execute(
                f"SELECT DISTINCT trace_id FROM spans WHERE {condition} LIMIT 9",  # noqa: S608  our own text
                values,
            ).fetchall()
        found = [str(row[0]) for row in rows]
        if not exact or not found:
            raise InvalidRequestError(
                f"there is no trace {exact!r}", hint="`appliance trace` lists the latest requests"
            )
        if len(found) > 1:
            raise InvalidRequestError(
                f"{len(found)}{' or more' if len(found) > 8 else ''} traces begin with {exact!r}",
                hint=f"give more characters, such as {found[0][: len(exact) + 6]}",
            )
        return found[0]

    def _select(self, clauses: str, values: Sequence[str | int]) -> list[SpanRecord]:
        with _translated(self.path):
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM spans {clauses}",  # noqa: S608  our own text
                tuple(values),
            )
            return [_record(row) for row in rows]

    def _used_bytes(self) -> int:
        with _translated(self.path):
            pages, free, page_bytes = (
                int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * page_bytes

    def _delete_oldest(self) -> int:
        return self.delete(
            "start_ns <= (SELECT start_ns FROM spans ORDER BY start_ns "
            "LIMIT 1 OFFSET (SELECT count(*) / 8 FROM spans))",
            (),
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise StorageError(
            f"the traces in {path} cannot be used: {exc}",
            hint="traces are only a record of past requests; the file may be removed",
        ) from exc


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Not opened when it is there: closing it would drop the locks that SQLite holds on it in this process.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if int(connection.execute("PRAGMA user_version").fetchone()[0]) < _VERSION:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _row(record: SpanRecord) -> tuple[str | int, ...]:
    return (
        record.trace_id,
        record.span_id,
        record.parent_id,
        record.name,
        record.owner,
        record.request_id,
        record.start_ns,
        record.duration_ns,
        record.status,
        json.dumps(record.attributes),
        json.dumps(record.content),
    )


def _record(row: Sequence[object]) -> SpanRecord:
    trace_id, span_id, parent_id, name, owner, request_id, start_ns, duration_ns, status, facts, texts = row
    return SpanRecord(
        trace_id=str(trace_id),
        span_id=str(span_id),
        parent_id=str(parent_id),
        name=str(name),
        owner=str(owner),
        request_id=str(request_id),
        start_ns=int(str(start_ns)),
        duration_ns=int(str(duration_ns)),
        status=cast("SpanStatus", status),
        attributes=cast("dict[str, AttributeValue]", json.loads(str(facts))),
        content=cast("dict[str, str]", json.loads(str(texts))),
    )
