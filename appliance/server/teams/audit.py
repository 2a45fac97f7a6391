"""The audit log: append-only, each entry bound to the one before it by a hash, with checkpoints to keep elsewhere.

Entries name users, ids and counts, never content, so that forgetting does not break the chain. A chain alone
does not show that its end was cut off or that all of it was written anew; a checkpoint that somebody keeps
outside of this machine does.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from appliance.core.errors import Detail, InvalidRequestError
from appliance.storage.database import Database

FIRST_PREVIOUS = "0" * 64
COMMAND_LINE = "command-line"
"""The actor of what is done by commands on the machine of the data folder."""
_PAGE = 1_000
_COLUMNS = "sequence, at_s, actor, action, subject, details_json, previous, digest"

_Row = tuple[int, float, str, str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that was done: by whom, to what. `digest` covers all of it and `previous`."""

    sequence: int
    at_s: float
    actor: str
    action: str
    subject: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    previous: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The end of the chain at one time. Kept elsewhere, it shows later whether the chain still holds it."""

    sequence: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a walk over the chain found; `problems` is empty when nothing was changed."""

    entries: int
    checkpoint: Checkpoint
    problems: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class AuditLog:
    """Appends to and reads the log of one store. The database must have the TEAMS schema."""

    def __init__(self, database: Database, *, now_s: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now_s = now_s

    def append(self, actor: str, action: str, subject: str = "", **details: Detail) -> AuditEntry:
        """Write an entry; it is on disk when this returns."""
        with self._database.transaction() as connection:
            return append_entry(connection, self._now_s(), actor, action, subject, details)

    def checkpoint(self) -> Checkpoint:
        """Return the end of the chain as it is now."""
        with self._database.read() as connection:
            row = _last(connection)
        return Checkpoint(sequence=row[0], digest=row[1])

    def entries(self, *, after: int = 0) -> Iterator[AuditEntry]:
        """Yield the entries in order, those behind a sequence number only."""
        while rows := self._page(after):
            yield from (_entry(row) for row in rows)
            after = rows[-1][0]

    def verify(self, kept: Checkpoint | None = None) -> Verification:
        """Compute the chain anew and compare; also with a checkpoint that was kept elsewhere."""
        with self._database.read() as connection:
            return _walk(connection, kept)

    def _page(self, after: int) -> list[_Row]:
        with self._database.read() as connection:
            return connection.execute(
                f"SELECT {_COLUMNS} FROM audit WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608
                (after, _PAGE),
            ).fetchall()


def append_entry(
    connection: sqlite3.Connection,
    at_s: float,
    actor: str,
    action: str,
    subject: str = "",
    details: Mapping[str, Detail] | None = None,
) -> AuditEntry:
    """Write an entry inside a transaction of the caller, so that deed and entry stand or fall together."""
    last_sequence, previous = _last(connection)
    details_json = _canonical(dict(details or {}))
    sequence = last_sequence + 1
    digest = _digest(sequence, at_s, actor, action, subject, details_json, previous)
    row: _Row = (sequence, at_s, actor, action, subject, details_json, previous, digest)
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return _entry(row)


def checkpoint_of(text: str) -> Checkpoint:
    """Read a checkpoint as `appliance audit export` writes it: its last line, or that object alone.

    Raises:
        InvalidRequestError: there is none.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        values = json.loads(lines[-1] if lines else "")["checkpoint"]
        return Checkpoint(sequence=int(values["sequence"]), digest=str(values["digest"]))
    except (ValueError, KeyError, TypeError) as exc:
        raise InvalidRequestError(
            "this is no checkpoint of an audit log", hint="use a file that `appliance audit export` wrote"
        ) from exc


def _walk(connection: sqlite3.Connection, kept: Checkpoint | None) -> Verification:
    problems: list[str] = []
    count, sequence, digest = 0, 0, FIRST_PREVIOUS
    kept_digest = FIRST_PREVIOUS if kept is not None and kept.sequence == 0 else ""
    for row in connection.execute(f"SELECT {_COLUMNS} FROM audit ORDER BY sequence"):  # noqa: S608
        problems += _problems_of(row, sequence, digest)
        count, sequence, digest = count + 1, row[0], row[7]
        if kept is not None and sequence == kept.sequence:
            kept_digest = digest
    problems += _counter_problems(connection, sequence)
    if kept is not None and kept_digest != kept.digest:
        problems.append(
            f"entry {kept.sequence} is not what the checkpoint says: entries were cut off or written anew"
        )
    end = Checkpoint(sequence=sequence, digest=digest)
    return Verification(entries=count, checkpoint=end, problems=tuple(problems))


def _counter_problems(connection: sqlite3.Connection, last: int) -> list[str]:
    """SQLite keeps the highest number it ever gave; after a cut tail it is ahead of the last entry."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'audit'").fetchone()
    counted = int(row[0]) if row else 0
    return [] if counted == last else [f"the last entry is {last}, but {counted} were written"]


def _last(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT sequence, digest FROM audit ORDER BY sequence DESC LIMIT 1").fetchone()
    return (int(row[0]), str(row[1])) if row else (0, FIRST_PREVIOUS)


def _problems_of(row: _Row, last_sequence: int, last_digest: str) -> list[str]:
    problems: list[str] = []
    if row[0] != last_sequence + 1:
        problems.append(f"entries {last_sequence + 1} to {row[0] - 1} are missing")
    if row[6] != last_digest:
        problems.append(f"entry {row[0]} does not follow the entry before it")
    if row[7] != _digest(*row[:7]):
        problems.append(f"entry {row[0]} was changed")
    return problems


def _digest(
    sequence: int, at_s: float, actor: str, action: str, subject: str, details_json: str, previous: str
) -> str:
    canonical = _canonical([sequence, at_s, actor, action, subject, details_json, previous])
    return hashlib.sha256(canonical.encode()).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _entry(row: _Row) -> AuditEntry:
    sequence, at_s, actor, action, subject, details_json, previous, digest = row
    return AuditEntry(
        sequence=sequence,
        at_s=at_s,
        actor=actor,
        action=action,
        subject=subject,
        details=json.loads(details_json),
        previous=previous,
        digest=digest,
    )
