"""The tables of users, tokens, the audit log and retention rules. Steps are never edited."""

from __future__ import annotations

from appliance.storage.schema import Schema

# `users.id` is the owner in every other table. A name can be given again after its user was removed, an id
# never, so that a new user of an old name finds nothing of the old one. Tokens are kept as sha256 only.
# The triggers keep honest programs from changing the log; the hash chain shows what others did.
_TEAMS_1 = """
CREATE TABLE users (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('member', 'admin')),
    created_at_s REAL NOT NULL,
    removed_at_s REAL
) STRICT;
CREATE UNIQUE INDEX users_by_name ON users (name) WHERE removed_at_s IS NULL;

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    label TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    expires_at_s REAL,
    revoked_at_s REAL
) STRICT;
CREATE INDEX tokens_by_user ON tokens (user_id);

CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    details_json TEXT NOT NULL,
    previous TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TABLE retention_rules (
    user_id TEXT NOT NULL DEFAULT '',
    what TEXT NOT NULL CHECK (what IN ('conversations', 'documents')),
    days REAL NOT NULL CHECK (days > 0),
    PRIMARY KEY (user_id, what)
) STRICT;

CREATE TABLE documents_seen (
    document_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    seen_at_s REAL NOT NULL
) STRICT;
"""

TEAMS = Schema(feature="teams", steps=(_TEAMS_1,))
