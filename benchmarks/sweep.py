"""The suite `sweep`: vary one setting at a time, race all against the usual, prove what is faster together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from appliance.core.errors import ProviderUnavailableError
from benchmarks.anytime import least_values
from benchmarks.race import Contestant, Race
from benchmarks.speed_tests import LoadChoice
from benchmarks.sweep_advice import Found, may_recommend
from benchmarks.sweep_plan import SweepPlan, Variation, changed

# All statements of a sweep together are wrong in at most 5 % of sweeps: 4 for the settings one by one, 1 for those
# that are put together.
_SEARCH_SHARE, _PROOF_SHARE = 0.04, 0.01
_PROVEN_AT_ONCE = 2
_SPARE = 1.5
_TOGETHER, _ALONE = "together", "the best alone"


class RequestTimer(Protocol):
    """Measures the request under a choice, inside a time."""

    failure: str

    async def request_s(self, choice: LoadChoice) -> float | None:
        """Seconds of the request; None where it failed, and `failure` says why."""
        ...

    def left_s(self) -> float:
        """How much of the time is left."""
        ...

    def now_s(self) -> float:
        """The clock that measurements are paid by."""
        ...


class Sweep:
    """The races of one sweep, and what follows from them at any moment."""

    def __init__(self, plan: SweepPlan, tried: list[Variation], timer: RequestTimer, *, seed: str) -> None:
        self._plan = plan
        self._tried = tried
        self._timer = timer
        self._seed = seed
        measured = [one for one in tried if not one.skipped]
        confidence = 1.0 - _SEARCH_SHARE / max(1, len(measured))
        self._entered = {
            one: Contestant(name=one.name, group=one.factor, confidence=confidence) for one in measured
        }
        self._search = self._race({contestant: one.choice for one, contestant in self._entered.items()})
        self._proof: dict[str, Contestant] = {}
        self._together: LoadChoice | None = None
        self._usual_failure = ""

    async def run(self) -> None:
        """Search, prove what was found together, and use what time is left for what is not decided.

        Raises:
            ProviderUnavailableError: the usual settings failed before anything could be compared.
        """
        await self._search.run(self._must_prove)
        if len(self._winners()) > 1 and self._timer.left_s() > 0:
            await self._prove()
        await self._search.run()
        if self._usual_failure and not any(one.ratios for one in self._entered.values()):
            raise ProviderUnavailableError(f"your settings cannot be measured: {self._usual_failure}")

    def found(self) -> Found:
        """What was found so far."""
        return Found(
            tried=self._tried,
            entered=self._entered,
            best=self._best(),
            together=self._together,
            proof=self._proof.get(_TOGETHER),
            needed_s=self._search.seconds_to_decide_all(),
            rounds=len(self._search.usual_s),
            elapsed_s=self._plan.budget_s - self._timer.left_s(),
            usual_failure=self._usual_failure,
        )

    def _winners(self) -> list[Variation]:
        """Of each setting the value that was shown to be the fastest, of those that may be recommended."""
        fastest = list(self._search.winners().values())
        return [
            one
            for one, contestant in self._entered.items()
            if contestant in fastest
            and may_recommend(one.factor, may_change_answers=self._plan.may_change_answers)
        ]

    def _must_prove(self) -> bool:
        """Whether the time left is needed to prove that winners are faster together."""
        rounds = least_values(1.0 - _PROOF_SHARE / _PROVEN_AT_ONCE)
        needed_s = _SPARE * rounds * (1 + _PROVEN_AT_ONCE) * self._search.usual_cost_s
        return len(self._winners()) > 1 and self._timer.left_s() < needed_s

    async def _prove(self) -> None:
        """Race all winners together, and the best of them alone, in rounds of their own."""
        self._together = self._plan.usual
        for one in self._winners():
            self._together = changed(self._together, one.factor, one.value)
        confidence = 1.0 - _PROOF_SHARE / _PROVEN_AT_ONCE
        self._proof = {
            name: Contestant(name=name, group=_TOGETHER, confidence=confidence)
            for name in (_TOGETHER, _ALONE)
        }
        alone = self._fastest()
        assert alone is not None
        choices = {_TOGETHER: self._together, _ALONE: alone.choice}
        await self._race({one: choices[name] for name, one in self._proof.items()}).run()
        self._entered[alone].failure = self._proof[_ALONE].failure

    def _race(self, choices: Mapping[Contestant, LoadChoice]) -> Race:
        async def measure(one: Contestant | None) -> float | None:
            seconds = await self._timer.request_s(self._plan.usual if one is None else choices[one])
            failure = self._timer.failure if seconds is None else ""
            if one is None:
                self._usual_failure = failure
            else:
                one.failure = failure
            return seconds

        return Race(
            list(choices),
            measure,
            left_s=self._timer.left_s,
            now_s=self._timer.now_s,
            seed=self._seed,
            most_rounds=self._plan.most_rounds,
        )

    def _best(self) -> LoadChoice:
        """What is faster together, where that was shown; otherwise the fastest alone, otherwise the usual."""
        together, alone = self._proof.get(_TOGETHER), self._proof.get(_ALONE)
        if together is not None and alone is not None and self._together is not None:
            is_shown = not together.failure and together.standing == "faster"
            if is_shown and (alone.failure or together.speedup >= alone.speedup):
                return self._together
        fastest = self._fastest()
        return fastest.choice if fastest else self._plan.usual

    def _fastest(self) -> Variation | None:
        return max(self._winners(), key=lambda one: self._entered[one].speedup, default=None)
