"""Limits of the gateway: queue, concurrency, requests and tokens per minute, overall and per owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.config.tables import Table

_MOST = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of all requests together or of one owner; 0 is no limit, for `queue` it is no waiting."""

    queue: int = 256
    concurrency: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`owners` states limits of single owners in place of `each_owner`. A request of more tokens than
    `small_request_tokens` is large: with more than one seat, large ones never take the last.
    """

    overall: Quota = field(default_factory=lambda: Quota(queue=1024))
    each_owner: Quota = field(default_factory=Quota)
    owners: Mapping[str, Quota] = field(default_factory=dict)
    small_request_tokens: int = 2048

    def of_owner(self, owner: str) -> Quota:
        """Return the limits of an owner."""
        return self.owners.get(owner, self.each_owner)


def parse_limits(table: Table) -> Limits:
    """Read the table `limits` with `limits.owner` and `limits.owners.<name>`.

    Raises:
        ConfigError: a key or value means nothing.
    """
    usual = Limits()
    each_owner = _finished_quota(table.table("owner"), usual.each_owner)
    limits = Limits(
        overall=_quota(table, usual.overall),
        each_owner=each_owner,
        owners={owner.name: _finished_quota(owner, each_owner) for owner in table.table("owners").tables()},
        small_request_tokens=table.integer("small_request_tokens", usual.small_request_tokens, 1, _MOST),
    )
    table.finish()
    return limits


def _finished_quota(table: Table, usual: Quota) -> Quota:
    quota = _quota(table, usual)
    table.finish()
    return quota


def _quota(table: Table, usual: Quota) -> Quota:
    return Quota(
        queue=table.integer("queue", usual.queue, 0, _MOST),
        concurrency=table.integer("concurrency", usual.concurrency, 0, _MOST),
        requests_per_minute=table.integer("requests_per_minute", usual.requests_per_minute, 0, _MOST),
        tokens_per_minute=table.integer("tokens_per_minute", usual.tokens_per_minute, 0, _MOST),
    )
