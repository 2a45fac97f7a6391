"""How an answer came about: the candidates, every attempt, whether it was stored, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.core.errors import FailureKind
from appliance.core.routing import RouteDecision
from appliance.core.usage import Timings, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One call of one candidate. `failure` is `None` when it answered; `waited_s` is the back-off before it."""

    provider: str
    model: str
    failure: FailureKind | None = None
    message: str = ""
    waited_s: float = 0.0
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One term of a cost: a quantity, its unit, the price of a unit, and their product."""

    what: str
    quantity: float
    unit: str
    unit_price: float
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a request cost, all attempts together, with everything needed to explain it later.

    `unpriced` names models for which the price table has no price; they are not in `amount`.
    """

    amount: float
    currency: str
    price_version: str
    lines: tuple[CostLine, ...] = ()
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """What the gateway did for a result. `is_from_cache` says that a stored answer was given again."""

    decision: RouteDecision | None = None
    attempts: tuple[AttemptRecord, ...] = ()
    is_from_cache: bool = False
    cost: Cost | None = None
