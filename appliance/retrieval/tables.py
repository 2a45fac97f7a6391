"""The tables of documents and chunks."""

from __future__ import annotations

from appliance.storage.schema import Schema

RETRIEVAL_SCHEMA = Schema(
    feature="retrieval",
    steps=(
        """
        CREATE TABLE documents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            document_id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            collection TEXT NOT NULL,
            source TEXT NOT NULL,
            name TEXT NOT NULL,
            title TEXT NOT NULL,
            media_type TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            size_bytes INTEGER NOT NULL,
            parser TEXT NOT NULL,
            chunker TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('ready', 'failed')),
            reason TEXT NOT NULL,
            message TEXT NOT NULL,
            page_count INTEGER NOT NULL,
            pages_without_text TEXT NOT NULL,
            notices TEXT NOT NULL,
            character_count INTEGER NOT NULL,
            chunk_count INTEGER NOT NULL,
            parsed BLOB NOT NULL,
            UNIQUE (owner, collection, source)
        ) STRICT;
        CREATE INDEX documents_by_content ON documents (owner, collection, sha256);
        CREATE TABLE chunks (
            chunk_id INTEGER PRIMARY KEY AUTOINCREMENT,
            document INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,
            start INTEGER NOT NULL,
            end INTEGER NOT NULL,
            text TEXT NOT NULL,
            heading_path TEXT NOT NULL,
            prefix TEXT NOT NULL,
            token_count INTEGER NOT NULL,
            segments TEXT NOT NULL,
            is_in_words INTEGER NOT NULL DEFAULT 0,
            vector_digest TEXT NOT NULL DEFAULT '',
            UNIQUE (document, ordinal)
        ) STRICT;
        CREATE INDEX chunks_without_words ON chunks (chunk_id) WHERE is_in_words = 0;
        CREATE INDEX chunks_without_vector ON chunks (chunk_id) WHERE vector_digest = '';
        CREATE TABLE removed_chunks (chunk_id INTEGER PRIMARY KEY) STRICT;
        CREATE TABLE retrieval_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
        """,
        # Every search counts what it searched and what is missing of that; indexes alone answer that.
        """
        CREATE INDEX documents_counted ON documents (owner, collection, state, chunk_count);
        DROP INDEX chunks_without_words;
        DROP INDEX chunks_without_vector;
        CREATE INDEX chunks_without_words ON chunks (document, is_in_words) WHERE is_in_words = 0;
        CREATE INDEX chunks_without_vector ON chunks (document, vector_digest) WHERE vector_digest = '';
        """,
    ),
)
