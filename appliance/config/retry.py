"""When and how often a candidate is asked again, and how long the gateway waits before it."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.tables import Table
from appliance.core.errors import FailureKind

RETRIED_KINDS: tuple[FailureKind, ...] = (
    "engine_crashed",
    "internal",
    "provider_unavailable",
    "rate_limited",
    "timeout",
)
USUAL_RETRY: frozenset[FailureKind] = frozenset(("engine_crashed", "provider_unavailable", "rate_limited"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`max_attempts` bounds the calls of one request, retries and fallbacks together. Waits grow from
    `first_wait_s` by the factor two up to `longest_wait_s`; a part of each is left to chance.
    """

    max_attempts: int = 3
    first_wait_s: float = 0.25
    longest_wait_s: float = 8.0
    retry_on: frozenset[FailureKind] = USUAL_RETRY


def parse_retry(table: Table) -> RetryPolicy:
    """Read the table `retry`.

    Raises:
        ConfigError: a key or value means nothing.
    """
    usual = RetryPolicy()
    policy = RetryPolicy(
        max_attempts=table.integer("max_attempts", usual.max_attempts, 1, 100),
        first_wait_s=table.number("first_wait_s", usual.first_wait_s, 0.001, 3600.0),
        longest_wait_s=table.number("longest_wait_s", usual.longest_wait_s, 0.001, 3600.0),
        retry_on=table.choices("retry_on", sorted(USUAL_RETRY), RETRIED_KINDS),
    )
    if policy.longest_wait_s < policy.first_wait_s:
        raise table.wrong("longest_wait_s", "at least first_wait_s is expected")
    table.finish()
    return policy
