"""Rates per minute, overall and per owner: buckets that fill steadily and are taken from."""

from __future__ import annotations

from collections.abc import Callable

_MINUTE_S = 60.0
_MOST_OWNERS = 4096


class RateBucket:
    """Holds up to one minute's worth. What was taken too much is a debt that time pays off."""

    def __init__(self, per_minute: int, now_s: float) -> None:
        self.per_minute = per_minute
        self._level = float(per_minute)
        self._filled_at_s = now_s

    def wait_s(self, amount: float, now_s: float) -> float:
        """Return the seconds until an amount may be taken. More than the bucket holds needs a full bucket."""
        self._fill(now_s)
        missing = min(amount, float(self.per_minute)) - self._level
        return max(missing, 0.0) * _MINUTE_S / self.per_minute

    def take(self, amount: float, now_s: float) -> None:
        """Take an amount, or give it back when it is below 0."""
        self._fill(now_s)
        self._level = min(self._level - amount, float(self.per_minute))

    def is_full(self, now_s: float) -> bool:
        """Whether nothing is taken, so that a new bucket would be the same."""
        self._fill(now_s)
        return self._level >= self.per_minute

    def _fill(self, now_s: float) -> None:
        gained = (now_s - self._filled_at_s) * self.per_minute / _MINUTE_S
        self._level = min(self._level + max(gained, 0.0), float(self.per_minute))
        self._filled_at_s = now_s


class Rate:
    """One rate: everybody's bucket and one an owner, each only where there is a limit.

    Args:
        overall: what everybody may take a minute; 0 is no limit.
        of_owner: what an owner may take a minute.
    """

    def __init__(self, what: str, overall: int, of_owner: Callable[[str], int], now_s: float) -> None:
        self.what = what
        self._overall = RateBucket(overall, now_s) if overall else None
        self._of_owner = of_owner
        self._owners: dict[str, RateBucket] = {}

    def fullest(self, owner: str, amount: float, now_s: float) -> tuple[float, int]:
        """Return the seconds until an amount may be taken, and the limit that asks for the longest wait."""
        waits = [(bucket.wait_s(amount, now_s), bucket.per_minute) for bucket in self._buckets(owner, now_s)]
        return max(waits, default=(0.0, 0))

    def take(self, owner: str, amount: float, now_s: float) -> None:
        """Take an amount, or give it back when it is below 0."""
        for bucket in self._buckets(owner, now_s):
            bucket.take(amount, now_s)

    def _buckets(self, owner: str, now_s: float) -> list[RateBucket]:
        found = [self._overall] if self._overall else []
        per_minute = self._of_owner(owner)
        if per_minute:
            if owner not in self._owners:
                self._drop_full(now_s)
                self._owners[owner] = RateBucket(per_minute, now_s)
            found.append(self._owners[owner])
        return found

    def _drop_full(self, now_s: float) -> None:
        """Forget owners to whom nothing is counted any more, once there are many."""
        if len(self._owners) >= _MOST_OWNERS:
            self._owners = {name: kept for name, kept in self._owners.items() if not kept.is_full(now_s)}
