"""Full text of every chunk in LanceDB: a persistent BM25 index over stems, with ICU word borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
    index_scope,
    lance_errors,
    read,
    unindexed_rows,
    upsert,
    within,
)
from appliance.retrieval.languages import check_language, language_of, stemmed, stemmed_query
from appliance.retrieval.records import StoredChunk

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.index import FTS
    from lancedb.table import Table

_TABLE = "words"
_INDEX = "words_idx"
_LANGUAGE = "appliance.language"
# Rows outside the index are found by reading them all, which is fast for some thousands only.
_UNINDEXED_ROWS = 5_000


class WordIndex:
    """Finds chunks by their words.

    Raises:
        ConfigError: the language of passages that do not show theirs is none that is known.
    """

    def __init__(self, store: LanceStore, language: str = "English") -> None:
        self._store = store
        self._language = check_language(language)
        self._table: Table | None = None
        self._languages: tuple[int, frozenset[str]] | None = None

    def is_usable(self) -> bool:
        """Whether the table is there, is whole, and was built for this language."""
        table = self._open()
        if table is None:
            return False
        metadata = table.schema.metadata or {}
        return bool(metadata.get(_LANGUAGE.encode(), b"").decode() == self._language)

    def rebuild(self) -> None:
        """Begin an empty table."""
        self._table = self._store.create(_TABLE, _schema(self._language))
        self._index()

    def add(self, chunks: Sequence[StoredChunk]) -> None:
        """Make chunks findable at once."""
        import pyarrow as pa

        languages = [language_of(chunk.text, self._language) for chunk in chunks]
        rows = pa.Table.from_pydict(
            {
                KEY: [chunk.chunk_id for chunk in chunks],
                "owner": [chunk.owner for chunk in chunks],
                "collection": [chunk.collection for chunk in chunks],
                "document_id": [chunk.document_id for chunk in chunks],
                "language": languages,
                "words": [
                    stemmed(chunk.words, language) for chunk, language in zip(chunks, languages, strict=True)
                ],
            },
            schema=_schema(self._language),
        )
        upsert(self._opened(), rows)

    def search(self, query: str, scope: Scope, limit: int) -> list[ScoredId]:
        """Return the chunks that share words with a query, best first; any text is a valid query."""
        table = self._open()
        if table is None or not query.strip():
            return []
        stems = stemmed_query(query, self._stored_languages(table))
        found = read(
            "search the full text",
            lambda: (
                table.search(stems, query_type="fts")
                .where(within(scope))
                .select([KEY, "_score", "language"])
                .limit(limit)
                .to_arrow()
            ),
        )
        columns = (found[name].to_pylist() for name in (KEY, "_score", "language"))
        return [
            ScoredId(chunk_id=chunk_id, score=score, language=language)
            for chunk_id, score, language in zip(*columns, strict=True)
        ]

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
        """Compact, and index what was added since, when it is enough to matter."""
        if (table := self._open()) is None:
            return
        unindexed = unindexed_rows(table, _INDEX)
        if unindexed is None:
            self._index()
        elif unindexed > _UNINDEXED_ROWS or has_many_versions(table):
            clean_up(table)

    def settle(self) -> None:
        """Compact and index everything, whatever its size."""
        if (table := self._open()) is not None:
            clean_up(table)

    def purge(self) -> None:
        """Make deleted words unrecoverable: the index keeps forgotten words until it is built anew."""
        if (table := self._open()) is None:
            return
        clean_up(table)
        self._index()
        clean_up(table)

    def _stored_languages(self, table: Table) -> frozenset[str]:
        """Languages of the passages; asked again whenever the table has a new version."""
        version = read("read the index", lambda: table.version)
        known = self._languages
        if known is None or version != known[0]:
            rows = read("read the index", lambda: _read_languages(table))
            # Both in one step: another thread may be adding or searching.
            known = version, frozenset(str(name) for name in rows["language"].unique().to_pylist())
            self._languages = known
        return known[1]

    def _open(self) -> Table | None:
        if self._table is None:
            self._table = self._store.open(_TABLE)
        return self._table

    def _opened(self) -> Table:
        if (table := self._open()) is None:
            self.rebuild()
            table = self._table
        assert table is not None
        return table

    def _index(self) -> None:
        with lance_errors("index the full text"):
            self._opened().create_index("words", config=_index_settings(), replace=True)
        index_scope(self._opened())


def _read_languages(table: Table) -> pa.Table:
    return table.search().select(["language"]).limit(max(1, table.count_rows())).to_arrow()


def _index_settings() -> FTS:
    from lancedb.index import FTS

    # The text comes stemmed, each passage in its own language; ICU finds the borders of words in any script.
    return FTS(base_tokenizer="icu", stem=False)


def _schema(language: str) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(KEY, pa.int64(), nullable=False, metadata=KEY_METADATA),
            pa.field("owner", pa.string(), nullable=False),
            pa.field("collection", pa.string(), nullable=False),
            pa.field("document_id", pa.string(), nullable=False),
            pa.field("language", pa.string(), nullable=False),
            pa.field("words", pa.string(), nullable=False),
        ],
        metadata={_LANGUAGE: language},
    )
