"""Requests that wait for a seat: who is next, so that owners share tokens evenly and small ones pass."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_PASSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a request asks of admission: a seat of a model for an owner. `tokens` is what it may take."""

    owner: str
    model: str
    tokens: int
    is_large: bool


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """A request in the queue, and the future that is done when it has its seat."""

    ask: Ask
    seated: asyncio.Future[None]


@dataclass(slots=True)
class _Line:
    """The waiting requests of one owner for one model, small and large apart, in order of arrival."""

    small: deque[Waiter] = field(default_factory=deque)
    large: deque[Waiter] = field(default_factory=deque)
    passes: int = 0

    def deque_of(self, ask: Ask) -> deque[Waiter]:
        return self.large if ask.is_large else self.small

    def head(self, has_seat: Callable[[Ask], bool]) -> Waiter | None:
        """Return who goes first: a small one, unless large ones were passed often enough."""
        is_large_due = not self.small or self.passes >= _MOST_PASSES
        order = (self.large, self.small) if is_large_due else (self.small, self.large)
        heads = [waiters[0] for waiters in order if waiters]
        return next((head for head in heads if has_seat(head.ask)), None)

    def note_seated(self, ask: Ask) -> None:
        self.passes = 0 if ask.is_large else self.passes + bool(self.large)


class FairQueue:
    """Lines by owner and model. Next is the owner who was served the fewest tokens (virtual token counter).

    An owner who comes back after a pause starts level with the least served of those who are busy, so that
    a pause earns no credit. A running request counts as expected until it ends, then as it was.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], _Line] = {}
        self._served: dict[str, int] = {}
        self._expected: Counter[str] = Counter()
        self._lengths: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._lengths.total()

    def length_of(self, owner: str) -> int:
        """Return how many requests of an owner wait."""
        return self._lengths[owner]

    def is_behind(self, ask: Ask) -> bool:
        """Whether requests of the same owner, model and size wait already."""
        line = self._lines.get((ask.owner, ask.model))
        return line is not None and bool(line.deque_of(ask))

    def begin(self, owner: str) -> None:
        """Take up the account of an owner who was idle."""
        self._served.setdefault(owner, min(self._served.values(), default=0))

    def end(self, owner: str) -> None:
        """Close the account of an owner who is idle again."""
        del self._served[owner]
        del self._expected[owner]

    def charge(self, ask: Ask) -> None:
        """Count what a request that begins is expected to take."""
        self._expected[ask.owner] += ask.tokens

    def settle(self, ask: Ask, used_tokens: int) -> None:
        """Count what a request that has ended took."""
        self._expected[ask.owner] -= ask.tokens
        self._served[ask.owner] += used_tokens

    def add(self, waiter: Waiter) -> None:
        """Queue a request behind those of its owner."""
        ask = waiter.ask
        self._lines.setdefault((ask.owner, ask.model), _Line()).deque_of(ask).append(waiter)
        self._lengths[ask.owner] += 1

    def remove(self, waiter: Waiter) -> None:
        """Take a request out of the queue."""
        ask = waiter.ask
        line = self._lines[ask.owner, ask.model]
        line.deque_of(ask).remove(waiter)
        if not line.small and not line.large:
            del self._lines[ask.owner, ask.model]
        self._lengths[ask.owner] -= 1
        if not self._lengths[ask.owner]:
            del self._lengths[ask.owner]

    def take_next(self, has_seat: Callable[[Ask], bool]) -> Waiter | None:
        """Take out who is next among those for whom there is a seat, or nothing."""
        heads = [head for line in self._lines.values() if (head := line.head(has_seat)) is not None]
        if not heads:
            return None
        waiter = min(heads, key=lambda head: self._tokens_of(head.ask.owner))
        self._lines[waiter.ask.owner, waiter.ask.model].note_seated(waiter.ask)
        self.remove(waiter)
        return waiter

    def _tokens_of(self, owner: str) -> int:
        return self._served[owner] + self._expected[owner]
