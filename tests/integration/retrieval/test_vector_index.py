"""The vector index as it grows: indexed when large, made anew when many times larger, filtered by scope."""

from __future__ import annotations

from pathlib import Path

import lancedb
import numpy as np
from lancedb.index import IvfRq
from numpy.typing import NDArray

from appliance.retrieval.lance import KEY, LanceStore, Scope, index_names, read
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.vector_index import INDEXED_FROM_ROWS, VectorIndex

_DIMENSION = 8


def chunk(number: int) -> StoredChunk:
    return StoredChunk(
        chunk_id=number,
        document_id=f"document-{number % 7}",
        owner="ann" if number % 2 else "ben",
        collection="papers",
        source="x.md",
        name="x.md",
        title="",
        ordinal=number,
        start=0,
        end=1,
        text="x",
        heading_path=(),
        prefix="",
        token_count=1,
        segments=(),
    )


def vectors(count: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(7).standard_normal((count, _DIMENSION)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def nearest(all_vectors: NDArray[np.float32], wanted: NDArray[np.float32], allowed: list[int]) -> set[int]:
    return {allowed[place] for place in np.argsort(-(all_vectors[allowed] @ wanted))[:10].tolist()}


def test_an_index_that_has_outgrown_its_partitions_is_made_anew_and_finds_what_is_nearest(
    tmp_path: Path,
) -> None:
    store = LanceStore(str(tmp_path))
    index = VectorIndex(store, digest="d" * 64, dimension=_DIMENSION)
    every = vectors(4 * INDEXED_FROM_ROWS)
    names: list[set[str]] = []
    for first in range(0, len(every), INDEXED_FROM_ROWS):
        rows = range(first, first + INDEXED_FROM_ROWS)
        index.add([chunk(number) for number in rows], every[rows.start : rows.stop].tolist())
        index.maintain()
        table = store.open("vectors")
        assert table is not None
        names.append({name for name in index_names(table) if name.startswith("vectors_in_")})

    assert names == [{"vectors_in_2_bits_of_20000"}] * 3 + [{"vectors_in_2_bits_of_80000"}]
    scope = Scope(owner="ann", collections=("papers",), document_ids=("document-3", "document-5"))
    allowed = [number for number in range(len(every)) if number % 2 and number % 7 in (3, 5)]
    found = 0
    for wanted in every[:20]:
        hits = {hit.chunk_id for hit in index.search(wanted.tolist(), scope, 10)}
        assert hits <= set(allowed)
        found += len(hits & nearest(every, wanted, allowed))
    assert found >= 190


def test_maintenance_leaves_one_version_and_a_reader_of_an_older_one_reads_on(tmp_path: Path) -> None:
    index = VectorIndex(LanceStore(str(tmp_path)), digest="d" * 64, dimension=_DIMENSION)
    index.add([chunk(1), chunk(2)], vectors(2).tolist())
    behind = lancedb.connect(tmp_path).open_table("vectors")
    index.add([chunk(2), chunk(3)], vectors(2).tolist())
    index.settle()
    up_to_date = lancedb.connect(tmp_path).open_table("vectors")

    handles = iter([behind, up_to_date])
    found = read("read", lambda: next(handles).search().select([KEY]).limit(9).to_arrow())

    assert sorted(found[KEY].to_pylist()) == [1, 2, 3]
    assert next(handles, None) is None
    assert len(list((tmp_path / "vectors.lance" / "_versions").glob("*.manifest"))) == 1
    assert len(list((tmp_path / "vectors.lance" / "data").glob("*"))) == 1


def test_many_small_additions_leave_few_versions_and_files(tmp_path: Path) -> None:
    index = VectorIndex(LanceStore(str(tmp_path)), digest="d" * 64, dimension=_DIMENSION)
    for number in range(120):
        index.add([chunk(number)], vectors(1).tolist())
        index.maintain()

    assert index.held() == set(range(120))
    assert len(list((tmp_path / "vectors.lance" / "_versions").glob("*.manifest"))) <= 51
    assert len(list((tmp_path / "vectors.lance" / "data").glob("*"))) <= 51


def test_purging_makes_an_index_of_an_earlier_version_anew(tmp_path: Path) -> None:
    store = LanceStore(str(tmp_path))
    index = VectorIndex(store, digest="d" * 64, dimension=_DIMENSION)
    index.add([chunk(number) for number in range(2_000)], vectors(2_000).tolist())
    table = store.open("vectors")
    assert table is not None
    earlier = IvfRq(distance_type="cosine", num_partitions=2)
    table.create_index("vector", config=earlier, name="vectors_of_2000")

    index.purge()

    left = [one.name for one in table.list_indices() if one.columns == ["vector"]]
    assert left == ["vectors_in_2_bits_of_2000"]
