"""Requests that wait for a seat: who is next, so that owners share tokens evenly and small ones pass."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

_MOST_PASSES = 4


@dataclass(slots=True, eq=False)
class Waiter:
    """A request in the queue. `tokens` is what it is expected to take."""

    owner: str
    tokens: int
    is_large: bool
    seated: asyncio.Future[None]


@dataclass(slots=True)
class _Line:
    """The waiting requests of one owner, small and large apart, each in order of arrival."""

    small: deque[Waiter] = field(default_factory=deque)
    large: deque[Waiter] = field(default_factory=deque)
    passes: int = 0

    def __len__(self) -> int:
        return len(self.small) + len(self.large)

    def head(self, *, may_be_large: bool) -> Waiter | None:
        """Return who goes first: a small one, unless large ones were passed often enough."""
        if self.large and may_be_large and (not self.small or self.passes >= _MOST_PASSES):
            return self.large[0]
        return self.small[0] if self.small else None

    def remove(self, waiter: Waiter) -> None:
        (self.large if waiter.is_large else self.small).remove(waiter)

    def note_seated(self, waiter: Waiter) -> None:
        self.passes = 0 if waiter.is_large else self.passes + bool(self.large)


class FairQueue:
    """Lines by owner. Next is the owner who was served the fewest tokens so far (virtual token counter).

    An owner who comes back after a pause starts level with the least served of those who are busy, so that
    a pause earns no credit.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._served: dict[str, float] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def length_of(self, owner: str) -> int:
        """Return how many requests of an owner wait."""
        return len(self._lines[owner]) if owner in self._lines else 0

    def begin(self, owner: str) -> None:
        """Take up the account of an owner who was idle."""
        level = min(self._served.values(), default=0.0)
        self._served.setdefault(owner, level)

    def end(self, owner: str) -> None:
        """Close the account of an owner who is idle again."""
        self._served.pop(owner, None)

    def charge(self, owner: str, tokens: float) -> None:
        """Count tokens an owner was served, or give some back."""
        if owner in self._served:
            self._served[owner] += tokens

    def add(self, waiter: Waiter) -> None:
        """Queue a request behind those of its owner."""
        line = self._lines.setdefault(waiter.owner, _Line())
        (line.large if waiter.is_large else line.small).append(waiter)
        self._length += 1

    def remove(self, waiter: Waiter) -> None:
        """Take a request out of the queue."""
        line = self._lines[waiter.owner]
        line.remove(waiter)
        self._length -= 1
        if not line:
            del self._lines[waiter.owner]

    def take_next(self, *, full_owners: frozenset[str], may_be_large: bool) -> Waiter | None:
        """Take out who is next among owners who have a seat left, or nothing."""
        heads = [
            head
            for owner, line in self._lines.items()
            if owner not in full_owners and (head := line.head(may_be_large=may_be_large)) is not None
        ]
        if not heads:
            return None
        waiter = min(heads, key=lambda head: self._served.get(head.owner, 0.0))
        self._lines[waiter.owner].note_seated(waiter)
        self.remove(waiter)
        return waiter
