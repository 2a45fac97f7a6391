"""Routes: a name for a list of candidates, how far their data may go, and when the next one is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from appliance.config.tables import Table
from appliance.core.capabilities import Placement
from appliance.core.errors import FailureKind
from appliance.core.routing import HARDEST, CostTier, Latency

FALLBACK_KINDS: tuple[FailureKind, ...] = (
    "authentication",
    "context_overflow",
    "engine_crashed",
    "internal",
    "provider_unavailable",
    "rate_limited",
    "timeout",
)
USUAL_FALLBACK: frozenset[FailureKind] = frozenset(("engine_crashed", "provider_unavailable", "rate_limited"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCandidate:
    """A model of a route. A tier that is not stated is never a reason against it."""

    model: str
    latency: Latency | None = None
    cost: CostTier | None = None
    max_difficulty: int = HARDEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Candidates in the order in which they are asked. `privacy` is the farthest place their data may go to.

    With `is_cascade` the next candidate is asked also when an answer is refused by a validator or grader.
    `stages` names the model or route for a step of a larger task.
    """

    name: str
    candidates: tuple[RouteCandidate, ...]
    privacy: Placement = "this_machine"
    fallback_on: frozenset[FailureKind] = USUAL_FALLBACK
    is_cascade: bool = False
    stages: Mapping[str, str] = field(default_factory=dict)


def parse_routes(table: Table) -> dict[str, Route]:
    """Read the table `routes`.

    Raises:
        ConfigError: a route has no candidate, or a key or value that means nothing.
    """
    return {route.name: parse_route(route) for route in table.tables()}


def parse_route(table: Table) -> Route:
    """Read one route."""
    candidates = tuple(
        _candidate(table, number, item) for number, item in enumerate(table.items("candidates"))
    )
    if not candidates:
        raise table.wrong("candidates", "a list of one or more models is expected")
    if len({candidate.model for candidate in candidates}) < len(candidates):
        raise table.wrong("candidates", "each model may stand once")
    stages = table.table("stages")
    route = Route(
        name=table.name,
        candidates=candidates,
        privacy=table.choice("privacy", get_args(Placement)) or "this_machine",
        fallback_on=table.choices("fallback_on", sorted(USUAL_FALLBACK), FALLBACK_KINDS),
        is_cascade=table.boolean("cascade", False),
        stages={stage: stages.text(stage) for stage in stages.keys()},  # noqa: SIM118  a table is no dict
    )
    table.finish()
    return route


def _candidate(route: Table, number: int, item: object) -> RouteCandidate:
    if isinstance(item, str) and item.strip():
        return RouteCandidate(model=item.strip())
    if not isinstance(item, dict):
        raise route.wrong("candidates", "each is the name of a model, or a table with the key model")
    table = route.inner(f"candidates[{number}]", item)
    candidate = RouteCandidate(
        model=table.text("model"),
        latency=table.choice("latency", get_args(Latency)),
        cost=table.choice("cost", get_args(CostTier)),
        max_difficulty=table.integer("max_difficulty", HARDEST, 0, HARDEST),
    )
    table.finish()
    return candidate
