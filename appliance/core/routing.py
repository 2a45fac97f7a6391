"""Which model answers: what a request asks of the router, whom it chose, and why each other was rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from appliance.core.capabilities import Capability, Placement
from appliance.core.errors import InvalidRequestError

Latency = Literal["interactive", "standard", "batch"]
CostTier = Literal["low", "medium", "high"]

RejectionReason = Literal[
    "unknown_model",
    "unavailable",
    "capability",
    "context_window",
    "privacy",
    "latency",
    "cost",
    "difficulty",
]

NEAREST_FIRST: tuple[Placement, ...] = get_args(Placement)
FASTEST_FIRST: tuple[Latency, ...] = get_args(Latency)
CHEAPEST_FIRST: tuple[CostTier, ...] = get_args(CostTier)
HARDEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingNeeds:
    """What a request asks of its candidates beyond what its output format and tools imply.

    `privacy` is the farthest place its data may go to; `latency` and `cost` are the worst tiers it accepts;
    `context_tokens` is room it needs; `stage` names the step of a larger task that it is, for which a route
    may state another model. `difficulty`, 0 to 10, is measured by code where it is `None`.

    Raises:
        InvalidRequestError: a number is outside its range.
    """

    privacy: Placement | None = None
    latency: Latency | None = None
    cost: CostTier | None = None
    context_tokens: int = 0
    capabilities: frozenset[Capability] = field(default_factory=frozenset)
    stage: str = ""
    difficulty: int | None = None

    def __post_init__(self) -> None:
        if self.context_tokens < 0:
            raise InvalidRequestError(f"context_tokens is {self.context_tokens}; it must not be below 0")
        if self.difficulty is not None and not 0 <= self.difficulty <= HARDEST:
            raise InvalidRequestError(f"difficulty is {self.difficulty}; it must be from 0 to {HARDEST}")


def nearest(*places: Placement | None) -> Placement:
    """Return the strictest of several limits to where data may go; `None` is no limit."""
    stated = [place for place in places if place is not None]
    return min(stated, key=NEAREST_FIRST.index, default=NEAREST_FIRST[-1])


def is_within(place: Placement, farthest: Placement) -> bool:
    """Whether a place is no farther away than a limit."""
    return NEAREST_FIRST.index(place) <= NEAREST_FIRST.index(farthest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A model that can serve the request, and the provider that runs it. `parallel` is how many requests it
    answers at the same time, 0 where that is not known.
    """

    model: str
    provider: str
    placement: Placement
    digest: str = ""
    parallel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A model that was considered and not chosen, with the reason as a code and as a sentence."""

    model: str
    provider: str
    reason: RejectionReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """The candidates of a request in the order in which they are asked. `route` is empty for a plain model."""

    asked: str
    route: str
    difficulty: int
    privacy: Placement
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...] = ()
