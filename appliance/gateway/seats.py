"""Seats that are taken: overall, by owner and by model, and whether one is left."""

from __future__ import annotations

from collections import Counter

from appliance.config import Limits
from appliance.gateway.waiting import Ask


class Seats:
    """Counts running requests. Of the seats of a model, and of all, large requests never take the last."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._model_seats: dict[str, int] = {}
        self._owners: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._large: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """How many requests run."""
        return self._owners.total()

    def running_of(self, owner: str) -> int:
        """Return how many requests of an owner run."""
        return self._owners[owner]

    def declare(self, model: str, seats: int) -> None:
        """Note how many requests a model answers at the same time; 0 is not known."""
        self._model_seats[model] = seats

    def has_seat(self, ask: Ask) -> bool:
        """Whether the limits leave a seat for a request."""
        overall, own = self._limits.overall.concurrency, self._limits.of_owner(ask.owner).concurrency
        if own and self._owners[ask.owner] >= own:
            return False
        if not _is_left(overall, self.running, self._large.total(), ask):
            return False
        of_model = self._model_seats.get(ask.model, 0)
        return _is_left(of_model, self._models[ask.model], self._large[ask.model], ask)

    def capacity(self, model: str) -> int:
        """Return how many requests for a model can run at the same time, at least 1."""
        limits = [
            seats for seats in (self._limits.overall.concurrency, self._model_seats.get(model, 0)) if seats
        ]
        return min(limits, default=1)

    def take(self, ask: Ask) -> None:
        """Count a request that begins to run."""
        self._owners[ask.owner] += 1
        self._models[ask.model] += 1
        self._large[ask.model] += ask.is_large

    def free(self, ask: Ask) -> None:
        """Count a request that has ended."""
        for counter, key, by in (
            (self._owners, ask.owner, 1),
            (self._models, ask.model, 1),
            (self._large, ask.model, int(ask.is_large)),
        ):
            counter[key] -= by
            if not counter[key]:
                del counter[key]


def _is_left(seats: int, taken: int, taken_by_large: int, ask: Ask) -> bool:
    if not seats:
        return True
    if ask.is_large and seats > 1 and taken_by_large >= seats - 1:
        return False
    return taken < seats
