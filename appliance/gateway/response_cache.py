"""Stored answers to requests that have only one: by owner, for a time, within a bound of bytes."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from appliance.core.errors import ApplianceError
from appliance.core.events import Completed, ModelIdentity
from appliance.core.forgetting import ForgetProbe, ForgetReport, ForgetTarget
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import AssistantMessage
from appliance.core.needs import needs_of
from appliance.core.requests import GenerateRequest
from appliance.core.routing import Candidate
from appliance.core.usage import FinishReason, Usage
from appliance.storage.database import Database
from appliance.storage.schema import Schema

CACHE_FILE = "answers.db"

_SCHEMA = Schema(
    feature="answers",
    steps=(
        """
        CREATE TABLE answers (
            key TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            stored_at REAL NOT NULL,
            used_at REAL NOT NULL,
            size_bytes INTEGER NOT NULL,
            answer TEXT NOT NULL
        ) STRICT;
        CREATE INDEX answers_by_owner ON answers (owner);
        CREATE INDEX answers_by_use ON answers (used_at);
        """,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """An answer as it was given the first time."""

    message: AssistantMessage
    finish_reason: FinishReason
    usage: Usage
    model: ModelIdentity
    logprobs: tuple[TokenLogprob, ...] = ()

    @property
    def usage_again(self) -> Usage:
        """Tokens of giving it again: all input is reused, and nothing is computed."""
        usage = self.usage
        return Usage(
            input_tokens=usage.input_tokens,
            cached_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        )


_ANSWERS: TypeAdapter[StoredAnswer] = TypeAdapter(StoredAnswer)
_REQUESTS: TypeAdapter[GenerateRequest] = TypeAdapter(GenerateRequest)
_KEYED = {"conversation", "sampling", "output", "owner", "prompt_id", "prompt_version", "is_raw"}


def key_of(request: GenerateRequest, candidate: Candidate) -> str | None:
    """Return the key of a request as a candidate gets it, or nothing when it may have many answers.

    It covers the owner, the weights, and everything that the answer depends on. Without a digest nobody
    knows whether the weights are still the same.
    """
    sampling = request.sampling
    if not candidate.digest or not (sampling.is_greedy or sampling.seed is not None):
        return None
    if "tools" in needs_of(request):
        return None
    try:
        told = _REQUESTS.dump_json(request, include=_KEYED)
    except PydanticSerializationError:  # text without a UTF-8 form
        return None
    model = f"{candidate.provider}\0{candidate.model}\0{candidate.digest}\0"
    return hashlib.sha256(model.encode() + told).hexdigest()


class ResponseCache:
    """One SQLite file. Nothing is read across owners: the owner is part of the key and of every query."""

    def __init__(
        self, folder: Path, *, ttl_s: float, max_bytes: int, now_s: Callable[[], float] = time.time
    ) -> None:
        self._database = Database(folder / CACHE_FILE, [_SCHEMA])
        self._ttl_s = ttl_s
        self._max_bytes = max_bytes
        self._now_s = now_s

    def get(self, key: str, owner: str) -> StoredAnswer | None:
        """Return a stored answer that is still fresh.

        Raises:
            StorageError: the file cannot be read.
        """
        now_s = self._now_s()
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT answer FROM answers WHERE key = ? AND owner = ? AND stored_at BETWEEN ? AND ?",
                (key, owner, now_s - self._ttl_s, now_s),
            ).fetchone()
        if row is None:
            return None
        with self._database.transaction(is_synced=False) as connection:
            connection.execute("UPDATE answers SET used_at = ? WHERE key = ?", (now_s, key))
        try:
            return _ANSWERS.validate_json(row[0])
        except (ValidationError, ApplianceError):
            return None

    def put(
        self,
        key: str,
        owner: str,
        message: AssistantMessage,
        completed: Completed,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> None:
        """Store an answer; what was not used for longest goes when there is no more room.

        Raises:
            StorageError: the file cannot be written.
        """
        answer = StoredAnswer(
            message=message,
            finish_reason=completed.finish_reason,
            usage=completed.usage,
            model=completed.model,
            logprobs=logprobs,
        )
        try:
            text = _ANSWERS.dump_json(answer).decode()
        except PydanticSerializationError:  # text without a UTF-8 form
            return
        size_bytes = len(text.encode()) + len(key) + len(owner.encode())
        if size_bytes > self._max_bytes:
            return
        now_s = self._now_s()
        with self._database.transaction(is_synced=False) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                (key, owner, now_s, now_s, size_bytes, text),
            )
            connection.execute(
                "DELETE FROM answers WHERE stored_at NOT BETWEEN ? AND ?", (now_s - self._ttl_s, now_s)
            )
            _shrink(connection, self._max_bytes)

    def forget_owner(self, owner: str) -> int:
        """Remove every answer of an owner, its bytes included, and return how many there were.

        Raises:
            StorageError: the file cannot be written, or another process reads it.
        """
        with self._database.transaction() as connection:
            count = connection.execute("DELETE FROM answers WHERE owner = ?", (owner,)).rowcount
        self._database.scrub()
        return count

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class ForgettableAnswers:
    """The stored answers as part of a forgetting. Keys don't tell what an answer was about, so all of the
    owner's go; they can be computed again.
    """

    name = "stored answers"

    def __init__(self, cache: ResponseCache) -> None:
        self._cache = cache

    @classmethod
    def below(cls, folder: Path) -> Self | None:
        """Open the answers that are stored in a folder, also when storing is switched off by now."""
        if not (folder / CACHE_FILE).exists():
            return None
        return cls(ResponseCache(folder, ttl_s=0.0, max_bytes=0))

    def close(self) -> None:
        """Close the file."""
        self._cache.close()

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove every answer of the target's owner."""
        count = self._cache.forget_owner(target.owner)
        return ForgetReport(store=self.name, removed={"answers": count} if count else {})

    def probe(self, needles: Sequence[str]) -> ForgetProbe:  # noqa: ARG002  the folder of caches is searched whole
        """Leave the search to the store that looks through the folder of caches byte by byte."""
        return ForgetProbe(store=self.name, checked=())


def _shrink(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Remove the answers that were not used for longest until the rest fits."""
    connection.execute(
        """
        DELETE FROM answers WHERE key IN (
            SELECT key FROM (
                SELECT key, sum(size_bytes) OVER (ORDER BY used_at DESC, key) AS kept_bytes FROM answers
            ) WHERE kept_bytes > ?
        )
        """,
        (max_bytes,),
    )
