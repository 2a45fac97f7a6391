"""The tables of conversations, their full-text index, summaries and facts. Steps are never edited."""

from __future__ import annotations

from appliance.storage.schema import Schema

# `turns.sequence` orders everything; clocks may jump. A turn's text is whole except while an answer is
# written: then its end lies in `answer_pieces`, one row per delta. A row of `chat_words` has the sequence
# of its turn as rowid, and that of a title the chat's number, negative. Turns are deleted with their chat
# only, never one by one: a cascade from parent to child would go as deep as the chat is long.
_CONVERSATIONS_1 = """
CREATE TABLE chats (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL CHECK (owner <> ''),
    title TEXT NOT NULL,
    is_titled INTEGER NOT NULL DEFAULT 0,
    system_text TEXT NOT NULL DEFAULT '',
    created_at_s REAL NOT NULL,
    updated_at_s REAL NOT NULL,
    last_sequence INTEGER NOT NULL DEFAULT 0,
    is_pinned INTEGER NOT NULL DEFAULT 0,
    archived_at_s REAL,
    deleted_at_s REAL,
    active_turn_id TEXT REFERENCES turns (id) DEFERRABLE INITIALLY DEFERRED,
    source TEXT NOT NULL DEFAULT '',
    source_id TEXT
) STRICT;
CREATE UNIQUE INDEX chats_by_source ON chats (owner, source, source_id) WHERE source_id IS NOT NULL;
CREATE INDEX chats_by_owner ON chats (owner, deleted_at_s, last_sequence);

CREATE TABLE turns (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    parent_id TEXT REFERENCES turns (id) DEFERRABLE INITIALLY DEFERRED,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'note')),
    state TEXT NOT NULL CHECK (state IN ('done', 'partial', 'stopped', 'failed', 'forgotten')),
    text TEXT NOT NULL DEFAULT '',
    reasoning TEXT NOT NULL DEFAULT '',
    tool_calls_json TEXT NOT NULL DEFAULT '[]',
    tool_call_id TEXT NOT NULL DEFAULT '',
    tool_name TEXT NOT NULL DEFAULT '',
    created_at_s REAL NOT NULL,
    continues_id TEXT REFERENCES turns (id) DEFERRABLE INITIALLY DEFERRED,
    writer TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX turns_by_chat ON turns (chat_id, sequence);
CREATE INDEX turns_by_parent ON turns (parent_id);
CREATE INDEX turns_by_continued ON turns (continues_id) WHERE continues_id IS NOT NULL;
CREATE INDEX turns_partial ON turns (state) WHERE state = 'partial';

CREATE TABLE answers (
    turn_id TEXT PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    request_json TEXT NOT NULL,
    receipt_json TEXT NOT NULL DEFAULT '',
    model_json TEXT NOT NULL DEFAULT '',
    usage_json TEXT NOT NULL DEFAULT '',
    timings_json TEXT NOT NULL DEFAULT '',
    finish_reason TEXT NOT NULL DEFAULT '',
    failure_json TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE answer_pieces (
    number INTEGER PRIMARY KEY,
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('text', 'reasoning', 'tool_call', 'checkpoint')),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE summaries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    last_turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    covered_turn_ids_json TEXT NOT NULL,
    text TEXT NOT NULL,
    made_by TEXT NOT NULL,
    created_at_s REAL NOT NULL
) STRICT;
CREATE INDEX summaries_by_chat ON summaries (chat_id);
CREATE INDEX summaries_by_turn ON summaries (last_turn_id);

CREATE VIRTUAL TABLE chat_words USING fts5 (body, tokenize = "unicode61 remove_diacritics 2");
"""

CONVERSATIONS = Schema(feature="conversations", steps=(_CONVERSATIONS_1,))

_FACTS_1 = """
CREATE TABLE facts (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL CHECK (owner <> ''),
    text TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('proposed', 'confirmed')),
    source_chat_id TEXT NOT NULL DEFAULT '',
    source_turn_id TEXT NOT NULL DEFAULT '',
    is_corrected INTEGER NOT NULL DEFAULT 0,
    created_at_s REAL NOT NULL,
    updated_at_s REAL NOT NULL,
    expires_at_s REAL,
    embedder_digest TEXT NOT NULL,
    embedding BLOB NOT NULL
) STRICT;
CREATE INDEX facts_by_owner ON facts (owner, state);
CREATE INDEX facts_by_source ON facts (source_turn_id);
"""

FACTS = Schema(feature="facts", steps=(_FACTS_1,))
