"""Numbered migrations, registered per feature; each runs once, in order, inside one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.core.errors import InternalError, StorageError

Step = str | Callable[[sqlite3.Connection], None]

_VERSIONS_TABLE = """
CREATE TABLE IF NOT EXISTS schema_versions (
    feature TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of one feature. Step n (from 1) brings them from version n-1 to n; steps are never edited.

    A step is SQL (several statements are fine) or a function of the connection. Neither may begin, commit
    or roll back: all pending steps share one transaction.
    """

    feature: str
    steps: tuple[Step, ...]

    @property
    def version(self) -> int:
        """The version this program knows."""
        return len(self.steps)


def read_versions(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the version of each feature in the file."""
    exists = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_versions'"
    ).fetchone()
    if not exists:
        return {}
    return dict(connection.execute("SELECT feature, version FROM schema_versions").fetchall())


def pending(schemas: Sequence[Schema], versions: dict[str, int]) -> list[Schema]:
    """Return the schemas with steps to run.

    Raises:
        StorageError: the file was written by a newer program.
    """
    for schema in schemas:
        found = versions.get(schema.feature, 0)
        if found > schema.version:
            raise StorageError(
                f"the store's {schema.feature} tables are of version {found}; "
                f"this program knows up to {schema.version}",
                hint="use the newer program that wrote them, or restore a file of the backups folder",
            )
    return [schema for schema in schemas if versions.get(schema.feature, 0) < schema.version]


def changes_existing_tables(schemas: Sequence[Schema], versions: dict[str, int]) -> bool:
    """Whether a pending step works on tables that may hold data, so that a backup is due."""
    return any(versions.get(schema.feature, 0) > 0 for schema in pending(schemas, versions))


def migrate(connection: sqlite3.Connection, schemas: Sequence[Schema]) -> None:
    """Run every pending step; the caller owns the transaction."""
    connection.execute(_VERSIONS_TABLE)
    versions = read_versions(connection)
    for schema in pending(schemas, versions):
        for step in schema.steps[versions.get(schema.feature, 0) :]:
            _run_step(connection, schema.feature, step)
        connection.execute(
            "INSERT INTO schema_versions (feature, version) VALUES (?, ?) "
            "ON CONFLICT (feature) DO UPDATE SET version = excluded.version",
            (schema.feature, schema.version),
        )


def _run_step(connection: sqlite3.Connection, feature: str, step: Step) -> None:
    if not isinstance(step, str):
        step(connection)
        return
    for statement in split_statements(step):
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as exc:
            if (exc.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_ERROR:
                raise
            raise InternalError(f"a migration of {feature} failed: {exc}: {statement.strip()[:200]}") from exc


def split_statements(script: str) -> list[str]:
    """Split SQL into statements; `executescript` would commit the open transaction."""
    statements: list[str] = []
    current = ""
    for piece in script.split(";")[:-1]:
        current += piece + ";"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    rest = current + script.rpartition(";")[2]
    return [*statements, rest] if rest.strip() else statements
