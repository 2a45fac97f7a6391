"""One LanceDB database: opening tables, healing them, and errors in the appliance's words."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from appliance.core.errors import InvalidRequestError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import DBConnection
    from lancedb.expr import Expr
    from lancedb.table import Table

KEY = "chunk_id"
# LanceDB keeps an upsert from doubling rows only for a column that says so.
KEY_METADATA = {"lance-schema:unenforced-primary-key": "true"}
_AT_ONCE = timedelta(microseconds=1)
_CONFLICT_RETRIES = 10
_READ_TRIES = 4
_MOST_VERSIONS = 50
_ROWS_OF_VERSION = 4_000

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a search may see: one owner, and of that some collections and documents; empty means all.

    Raises:
        InvalidRequestError: no owner is named.
    """

    owner: str
    collections: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.owner:
            raise InvalidRequestError("a search needs an owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredId:
    """A chunk and its score in one list; higher is better. `language` is what it is written in, where known."""

    chunk_id: int
    score: float
    language: str = ""


class LanceStore:
    """A LanceDB database at a path or an object-store URI. One process writes at a time; any may read."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        # Without this the library writes warnings to the terminal, into the middle of a screen.
        os.environ.setdefault("LANCEDB_LOG", "error")
        import lancedb

        self.uri = uri
        with lance_errors(f"open the index at {uri}"):
            self._connection: DBConnection = lancedb.connect(
                uri,
                read_consistency_interval=timedelta(0),
                storage_options=dict(storage_options or {}) or None,
            )

    def names(self) -> list[str]:
        """Names of the tables."""
        with lance_errors("list the tables of the index"):
            return list(self._connection.list_tables().tables)

    def open(self, name: str) -> Table | None:
        """Open a table, healing it when a power cut left its newest version without content.

        Returns None when there is no such table or when it is past healing.
        """
        if name not in self.names():
            return None
        for _ in range(2):
            try:
                return _read(partial(self._open_whole, name))
            except (RuntimeError, OSError, ValueError):
                if not self._remove_torn_versions(name):
                    return None
        return None

    def _open_whole(self, name: str) -> Table:
        table = self._connection.open_table(name)
        _read_keys(table)
        return table

    def create(self, name: str, schema: pa.Schema) -> Table:
        """Create a table, in place of whatever has the name."""
        with lance_errors(f"create the table {name} of the index"):
            self._clear(name)
            return self._connection.create_table(name, schema=schema)

    def _clear(self, name: str) -> None:
        """Remove a table with all its versions, also one that cannot be read any more."""
        if "://" not in self.uri:
            shutil.rmtree(Path(self.uri) / f"{name}.lance", ignore_errors=True)
        elif name in self.names():
            self._connection.drop_table(name)

    def _remove_torn_versions(self, name: str) -> bool:
        if "://" in self.uri:
            return False
        versions = Path(self.uri) / f"{name}.lance" / "_versions"
        torn = [path for path in versions.glob("*.manifest") if path.stat().st_size == 0]
        for path in torn:
            path.unlink()
        return bool(torn)


def within(scope: Scope) -> Expr:
    """Return the filter of a scope, built from values; text never becomes part of a query language."""
    from lancedb.expr import col, lit

    allowed = col("owner") == lit(scope.owner)
    if scope.collections:
        allowed = allowed & col("collection").isin(list(scope.collections))
    if scope.document_ids:
        allowed = allowed & col("document_id").isin(list(scope.document_ids))
    return allowed


def upsert(table: Table, rows: pa.Table) -> None:
    """Write rows by their key: what is there is replaced, nothing is doubled."""

    def write() -> None:
        table.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all().execute(rows)

    with lance_errors("write to the index"):
        _retried(write)


def delete_keys(table: Table, chunk_ids: Sequence[int]) -> None:
    """Delete rows by key; their bytes leave with the next `clean_up`."""
    from lancedb.expr import col

    with lance_errors("delete from the index"):
        for start in range(0, len(chunk_ids), 5000):
            part = list(chunk_ids[start : start + 5000])
            _retried(lambda part=part: table.delete(col(KEY).isin(part)))  # type: ignore[misc]


def held_keys(table: Table) -> set[int]:
    """Return the key of every row."""
    return set(read("read the index", lambda: _read_keys(table))[KEY].to_pylist())


def read(doing: str, query: Callable[[], _Result]) -> _Result:
    """Run a query; again, on the newest version, when another process dropped the one that it was reading."""
    with lance_errors(doing):
        return _read(query)


def _read(query: Callable[[], _Result]) -> _Result:
    for _ in range(_READ_TRIES - 1):
        try:
            return query()
        except (RuntimeError, OSError) as exc:
            if "not found" not in str(exc).lower():
                raise
    return query()


def _read_keys(table: Table) -> pa.Table:
    """Read the key of every row, which touches every data file, so that a missing one is noticed."""
    return table.search().select([KEY]).limit(max(1, table.count_rows())).to_arrow()


def clean_up(table: Table) -> None:
    """Compact small files, bring indexes up to date, and drop every version but the newest.

    The caller is the one writer. Who reads an older version at this moment reads again, see `read`.
    """
    with lance_errors("maintain the index"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Old versions are dropped before indexes are brought up to date, which leaves one more behind.
        for _ in range(2):
            _retried(lambda: table.optimize(cleanup_older_than=_AT_ONCE, delete_unverified=True))


def has_many_versions(table: Table) -> bool:
    """Whether many small writes have piled up since the last cleaning, which writes the whole table anew."""
    with lance_errors("read the index"):
        return len(table.list_versions()) > max(_MOST_VERSIONS, table.count_rows() // _ROWS_OF_VERSION)


def index_scope(table: Table) -> None:
    """Index the columns that every search filters by; without that, each reads them of all rows.

    It is built anew in place of an older one, which would still hold values of deleted rows.
    """
    from lancedb.index import Bitmap, BTree

    with lance_errors("index the owners and documents"):
        table.create_index("owner", config=Bitmap(), replace=True)
        table.create_index("collection", config=Bitmap(), replace=True)
        table.create_index("document_id", config=BTree(), replace=True)


def index_names(table: Table) -> list[str]:
    """Names of the indexes of a table."""
    with lance_errors("read the index"):
        return [index.name for index in table.list_indices()]


def unindexed_rows(table: Table, index_name: str) -> int | None:
    """Return how many rows an index does not cover yet; None when there is no such index."""
    with lance_errors("read the index"):
        if index_name not in index_names(table):
            return None
        statistics = table.index_stats(index_name)
        return None if statistics is None else statistics.num_unindexed_rows


@contextmanager
def lance_errors(doing: str) -> Iterator[None]:
    """Raise what LanceDB says as a StorageError."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as exc:
        raise _storage_error(exc, doing) from exc


def _storage_error(exc: Exception, doing: str) -> StorageError:
    said = str(exc)
    if "os error 28" in said or "No space left" in said or "os error 122" in said:
        return StorageError(
            f"could not {doing}: the disk is full",
            hint="free some space, then run the command again; what is missing is filled in",
        )
    if "os error 13" in said or "os error 30" in said or "Permission denied" in said:
        return StorageError(
            f"could not {doing}: the folder may not be written",
            hint="make the data folder yours to write, or set another",
        )
    first_line = said.strip().splitlines()[0] if said.strip() else type(exc).__name__
    return StorageError(f"could not {doing}: {first_line[:300]}", hint="`appliance reindex` builds it anew")


def _retried(write: Callable[[], _Result]) -> _Result:
    for _ in range(_CONFLICT_RETRIES):
        try:
            return write()
        except (RuntimeError, OSError) as exc:
            if "conflict" not in str(exc).lower():
                raise
    return write()
