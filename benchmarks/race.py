"""Measures contestants against one usual thing, round by round in random order, until each is decided or time is up."""

from __future__ import annotations

import random
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.anytime import anytime_interval, least_values
from benchmarks.statistics import Interval

Standing = Literal["faster", "slower", "alike", "undecided"]

# Within this factor nobody would change a setting.
ALIKE = 1.03
_LEAST_ROUNDS = 3
_RECENT = 3
# So often in a row the usual thing may fail.
_MOST_FAILURES = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Contestant:
    """One thing beside the usual one: how many times as fast it was in each round that measured both.

    `confidence` is of its own interval, at all times together; `group` names those of which only one can be chosen.
    """

    name: str
    group: str
    confidence: float
    ratios: list[float] = field(default_factory=list)
    costs_s: list[float] = field(default_factory=list)
    failure: str = ""
    is_left_out: bool = False

    @property
    def rounds(self) -> int:
        """How often both were measured."""
        return len(self.ratios)

    @property
    def speedup(self) -> float:
        """The median of the ratios; 1 before the first."""
        return statistics.median(self.ratios) if self.ratios else 1.0

    @property
    def interval(self) -> Interval:
        """Where that median lies."""
        return anytime_interval(self.ratios, confidence=self.confidence)

    @property
    def standing(self) -> Standing:
        """What the interval shows."""
        interval = self.interval
        if interval.low > 1.0:
            return "faster"
        if interval.high < 1.0:
            return "slower"
        return "alike" if interval.low >= 1 / ALIKE and interval.high <= ALIKE else "undecided"

    @property
    def cost_s(self) -> float:
        """Seconds that one more measurement takes."""
        return statistics.median(self.costs_s[-_RECENT:]) if self.costs_s else 0.0

    @property
    def rounds_to_claim(self) -> int:
        """The fewest rounds more that could decide it, if all went the way that most went; one, if it is decided."""
        if self.standing != "undecided":
            return 1
        against = min(sum(ratio <= 1.0 for ratio in self.ratios), sum(ratio >= 1.0 for ratio in self.ratios))
        return max(1, least_values(self.confidence, against) - self.rounds)

    @property
    def seconds_to_claim(self) -> float:
        """What deciding it costs at least."""
        return self.rounds_to_claim * self.cost_s


# None is the usual thing. Seconds of one measurement; None where it failed, which the contestant then says.
Measure = Callable[[Contestant | None], Awaitable[float | None]]


class Race:
    """Rounds of the usual thing and everybody not yet decided, each round in an order of its own.

    An order that chance decides makes "who of the two was faster" a fair coin where nothing differs, whatever the
    machine does meanwhile; the intervals rest on that alone. Who is decided rests. Where the time left cannot decide
    all, those that would take longest are left out, and come back when the others are done or nobody can be decided.
    Without the usual thing nothing can be compared: where it fails twice in a row, the race ends.

    Args:
        left_s: how much time is left.
        most_rounds: more of no contestant.
    """

    def __init__(
        self,
        contestants: Sequence[Contestant],
        measure: Measure,
        *,
        left_s: Callable[[], float],
        now_s: Callable[[], float],
        seed: str,
        most_rounds: int,
    ) -> None:
        self.contestants = list(contestants)
        self.usual_s: list[float] = []
        self._failures_in_a_row = 0
        self._measure = measure
        self._left_s = left_s
        self._now_s = now_s
        self._random = random.Random(seed)
        self._most_rounds = most_rounds

    async def run(self, must_end: Callable[[], bool] = lambda: False) -> None:
        """Go on until everybody is decided, the time is up or somebody says so."""
        while self._left_s() > 0 and self._failures_in_a_row < _MOST_FAILURES and not must_end():
            running = self._running()
            if not running:
                return
            await self._run_round(running)
            self._leave_out()

    @property
    def usual_cost_s(self) -> float:
        """Seconds of a measurement of the usual thing."""
        return statistics.median(self.usual_s[-_RECENT:]) if self.usual_s else 0.0

    def winners(self) -> dict[str, Contestant]:
        """Of each group the fastest of those that were shown to be faster."""
        found: dict[str, Contestant] = {}
        for one in self.contestants:
            if one.failure or one.standing != "faster":
                continue
            if one.group not in found or one.speedup > found[one.group].speedup:
                found[one.group] = one
        return found

    def seconds_to_decide_all(self) -> float:
        """The least time in which everybody not yet decided could be."""
        undecided = [one for one in self.contestants if self._is_open(one)]
        return self._seconds_to_decide(undecided) if undecided else 0.0

    def _running(self) -> list[Contestant]:
        """Everybody to be measured next; when nobody else is left, who was left out comes back."""
        open_ones = [one for one in self.contestants if self._is_open(one)]
        running = [one for one in open_ones if not one.is_left_out]
        if not running and open_ones:
            back = min(open_ones, key=lambda one: one.seconds_to_claim)
            back.is_left_out = False
            return [back]
        return running

    def _is_open(self, one: Contestant) -> bool:
        """Whether more rounds can tell anything: of several that are faster, which is fastest."""
        if one.failure or one.rounds >= self._most_rounds:
            return False
        if one.standing == "faster":
            return any(
                other.standing == "faster" and _is_open_between(one, other) for other in self._rivals(one)
            )
        return one.standing == "undecided"

    def _rivals(self, one: Contestant) -> list[Contestant]:
        return [
            other
            for other in self.contestants
            if other is not one and other.group == one.group and not other.failure
        ]

    async def _run_round(self, running: Sequence[Contestant]) -> None:
        order: list[Contestant | None] = [None, *running]
        self._random.shuffle(order)
        times: dict[Contestant | None, float] = {}
        for one in order:
            if self._left_s() <= 0:
                break
            began_s = self._now_s()
            seconds = await self._measure(one)
            cost_s = self._now_s() - began_s
            if one is not None:
                one.costs_s.append(cost_s)
            else:
                self.usual_s.append(cost_s)
                self._failures_in_a_row = self._failures_in_a_row + 1 if seconds is None else 0
                if seconds is None:
                    return
            if seconds is not None:
                times[one] = seconds
        for one in running:
            if None in times and one in times:
                one.ratios.append(times[None] / times[one])

    def _leave_out(self) -> None:
        """Keep those who can all be decided in the time left; where not even one can, let all have their share."""
        open_ones = [one for one in self.contestants if self._is_open(one)]
        if any(one.rounds < _LEAST_ROUNDS for one in open_ones if not one.is_left_out):
            return
        fitting = sorted(open_ones, key=lambda one: one.seconds_to_claim)
        while fitting and self._seconds_to_decide(fitting) > self._left_s():
            fitting.pop()
        for one in open_ones:
            one.is_left_out = one not in fitting if fitting else one.cost_s * _RECENT > self._left_s()

    def _seconds_to_decide(self, running: Sequence[Contestant]) -> float:
        usual_s = self.usual_cost_s * max(one.rounds_to_claim for one in running)
        return usual_s + sum(one.seconds_to_claim for one in running)


def _is_open_between(one: Contestant, other: Contestant) -> bool:
    """Whether either may still be the faster one, by so much that it matters."""
    low, high = sorted((one.interval, other.interval), key=lambda interval: interval.low)
    return high.low <= low.high and max(low.high, high.high) > low.low * ALIKE
