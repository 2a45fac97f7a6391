"""Vectors of chunks in LanceDB: exact while few, then an index whose candidates are scored exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from appliance.core.errors import ConfigError
from appliance.core.ports import Vector
from appliance.retrieval.lance import (
    KEY,
    KEY_METADATA,
    LanceStore,
    Scope,
    ScoredId,
    clean_up,
    delete_keys,
    has_many_versions,
    held_keys,
    index_names,
    index_scope,
    lance_errors,
    read,
    unindexed_rows,
    upsert,
    within,
)
from appliance.retrieval.records import StoredChunk

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import LanceVectorQueryBuilder
    from lancedb.table import Table
    from numpy.typing import NDArray

INDEXED_FROM_ROWS = 20_000
_TABLE = "vectors"
# The name of the index says how its vectors are packed, and how many rows its partitions were made for.
_INDEX = "vectors_in_2_bits_of_"
_BITS = 2
_RETRAINED_AT_TIMES = 4
_DIGEST = "appliance.embedder"
_UNINDEXED_ROWS = 10_000
# Measured for recall@10 of at least 0.97 at a million chunks: rows of a partition, partitions looked into, and
# how many candidates are scored with their full vectors. Two bits a number halve these against one.
_PARTITION_ROWS = 1_024
_PROBES = 40
_REFINED_CANDIDATES = 200
_LEAST_REFINED_TIMES = 2
# A quarter of the vectors and of the rounds that the library takes place partitions as well, in less time.
_SAMPLES_OF_PARTITION = 64
_TRAINING_ROUNDS = 20


class VectorIndex:
    """Finds chunks by the meaning of a text; holds vectors of one embedder only."""

    def __init__(self, store: LanceStore, *, digest: str, dimension: int) -> None:
        self._store = store
        self._digest = digest
        self._dimension = dimension
        self._table: Table | None = None
        self._is_checked = False

    def exists(self) -> bool:
        """Whether the table is there and whole, of whichever embedder."""
        return self._open() is not None

    def is_usable(self) -> bool:
        """Whether the table is there and holds vectors of this embedder.

        Raises:
            ConfigError: it holds vectors of another embedder.
        """
        return self._checked() is not None

    def rebuild(self) -> None:
        """Begin an empty table for this embedder."""
        self._table = self._store.create(_TABLE, self._schema())
        self._is_checked = False

    def add(self, chunks: Sequence[StoredChunk], vectors: Sequence[Vector]) -> None:
        """Store the vector of each chunk."""
        import pyarrow as pa

        rows = pa.Table.from_pydict(
            {
                KEY: [chunk.chunk_id for chunk in chunks],
                "owner": [chunk.owner for chunk in chunks],
                "collection": [chunk.collection for chunk in chunks],
                "document_id": [chunk.document_id for chunk in chunks],
                "vector": list(vectors),
            },
            schema=self._schema(),
        )
        upsert(self._opened(), rows)

    def search(self, vector: Vector, scope: Scope, limit: int) -> list[ScoredId]:
        """Return the nearest chunks by cosine similarity, best first."""
        table = self._checked()
        if table is None:
            return []
        found = read(
            "search the vectors",
            lambda: (
                _vector_query(table, vector)
                .distance_type("cosine")
                .where(within(scope))
                .nprobes(_PROBES)
                .refine_factor(max(_LEAST_REFINED_TIMES, _REFINED_CANDIDATES // limit))
                .select([KEY, "_distance"])
                .limit(limit)
                .to_arrow()
            ),
        )
        return [
            ScoredId(chunk_id=chunk_id, score=1.0 - distance)
            for chunk_id, distance in zip(found[KEY].to_pylist(), found["_distance"].to_pylist(), strict=True)
        ]

    def vectors_of(self, chunk_ids: Sequence[int], scope: Scope) -> dict[int, NDArray[np.float32]]:
        """Return the stored vectors of some chunks."""
        from lancedb.expr import col

        table = self._open()
        if table is None or not chunk_ids:
            return {}
        found = read(
            "read the vectors",
            lambda: (
                table.search()
                .where(within(scope) & col(KEY).isin(list(chunk_ids)))
                .select([KEY, "vector"])
                .limit(len(chunk_ids))
                .to_arrow()
            ),
        )
        vectors = np.asarray(found["vector"].combine_chunks().flatten(), dtype=np.float32)
        rows = vectors.reshape(len(found), self._dimension)
        return dict(zip(found[KEY].to_pylist(), rows, strict=True))

    def delete(self, chunk_ids: Sequence[int]) -> None:
        """Take chunks out of every later search."""
        if (table := self._open()) is not None:
            delete_keys(table, chunk_ids)

    def count(self) -> int:
        """Return how many chunks the table holds."""
        table = self._open()
        return 0 if table is None else read("count the rows of the index", table.count_rows)

    def held(self) -> set[int]:
        """Return the ids of all chunks in the table."""
        table = self._open()
        return set() if table is None else held_keys(table)

    def maintain(self) -> None:
        """Build the index once there are enough rows; take in what was added since when it matters."""
        if (table := self._open()) is None:
            return
        self._index_if_due(table)
        index = _index_name(table)
        unindexed = 0 if index is None else unindexed_rows(table, index) or 0
        if unindexed > _UNINDEXED_ROWS or has_many_versions(table):
            clean_up(table)

    def settle(self) -> None:
        """Compact, index what is due, and drop old versions, whatever the size."""
        if (table := self._open()) is not None:
            self._index_if_due(table)
            clean_up(table)

    def purge(self) -> None:
        """Make deleted vectors unrecoverable."""
        if (table := self._open()) is None:
            return
        clean_up(table)
        if _vector_indexes(table):
            self._index(table)
            clean_up(table)

    def _index_if_due(self, table: Table) -> None:
        """Index once there are enough rows, and anew when they have become many times more."""
        rows = self.count()
        if rows >= max(INDEXED_FROM_ROWS, _trained_rows(_index_name(table)) * _RETRAINED_AT_TIMES):
            self._index(table)

    def _index(self, table: Table) -> None:
        from lancedb.index import BTree, IvfRq

        name = f"{_INDEX}{self.count()}"
        config = IvfRq(
            distance_type="cosine",
            num_bits=_BITS,
            target_partition_size=_PARTITION_ROWS,
            sample_rate=_SAMPLES_OF_PARTITION,
            max_iterations=_TRAINING_ROUNDS,
        )
        with lance_errors("index the vectors"):
            older = _vector_indexes(table)
            table.create_index(KEY, config=BTree(), replace=True)
            table.create_index("vector", config=config, replace=True, name=name)
            for index in older:
                if index != name:
                    table.drop_index(index)
        index_scope(table)

    def _open(self) -> Table | None:
        if self._table is None:
            self._table = self._store.open(_TABLE)
        return self._table

    def _checked(self) -> Table | None:
        table = self._open()
        if table is not None and not self._is_checked:
            self._check_embedder(table)
            self._is_checked = True
        return table

    def _opened(self) -> Table:
        if (table := self._checked()) is None:
            self.rebuild()
            table = self._table
        assert table is not None
        return table

    def _check_embedder(self, table: Table) -> None:
        metadata = table.schema.metadata or {}
        held = metadata.get(_DIGEST.encode(), b"").decode()
        held_dimension = table.schema.field("vector").type.list_size
        if held == self._digest and held_dimension == self._dimension:
            return
        raise ConfigError(
            f"the index holds vectors of {held_dimension} numbers of the embedder {held[:12] or 'unknown'}; "
            f"the embedder in use is {self._digest[:12]} with {self._dimension}",
            hint="run `appliance reindex` to embed all anew, or set the embedder that was used before; "
            "text search (`--mode text`) works as it is",
        )

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(KEY, pa.int64(), nullable=False, metadata=KEY_METADATA),
                pa.field("owner", pa.string(), nullable=False),
                pa.field("collection", pa.string(), nullable=False),
                pa.field("document_id", pa.string(), nullable=False),
                pa.field("vector", pa.list_(pa.float32(), self._dimension), nullable=False),
            ],
            metadata={_DIGEST: self._digest},
        )


def _vector_indexes(table: Table) -> list[str]:
    """Names of all indexes of vectors, those of earlier versions too."""
    with lance_errors("read the index"):
        return [index.name for index in table.list_indices() if index.columns == ["vector"]]


def _index_name(table: Table) -> str | None:
    names = [name for name in index_names(table) if name.startswith(_INDEX)]
    # A crash between making a newer one and dropping the older leaves both.
    return max(names, key=_trained_rows, default=None)


def _trained_rows(index_name: str | None) -> int:
    return 0 if index_name is None else int(index_name.removeprefix(_INDEX))


def _vector_query(table: Table, vector: Vector) -> LanceVectorQueryBuilder:
    from lancedb.query import LanceVectorQueryBuilder

    query = table.search(vector, vector_column_name="vector", query_type="vector")
    assert isinstance(query, LanceVectorQueryBuilder)
    return query
