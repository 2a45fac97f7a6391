"""How long to wait before a candidate is asked again: exponential, with a part of each wait left to chance."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from appliance.config import RetryPolicy
from appliance.core.errors import Failure

if TYPE_CHECKING:
    from tenacity import RetryCallState

_LEAST_PART = 0.5


class BackOff:
    """Waits between the half and the whole of an exponentially growing time.

    When a failure says when to come back, the wait is at least that long.
    """

    def __init__(self, policy: RetryPolicy, chance: Random) -> None:
        self._policy = policy
        self._chance = chance

    def wait_s(self, failure: Failure, repetition: int) -> float | None:
        """Return the seconds before repetition 1, 2, ...; nothing when coming back takes too long."""
        # Here, because most runs of the program never wait, and the import takes 40 ms.
        from tenacity import wait_exponential

        policy = self._policy
        exponential = wait_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s)
        grown_s = exponential(_state(repetition))
        wait_s = max(grown_s * self._chance.uniform(_LEAST_PART, 1.0), _retry_after_s(failure))
        return wait_s if wait_s <= policy.longest_wait_s else None


def _retry_after_s(failure: Failure) -> float:
    stated = failure.details.get("retry_after_s", 0.0)
    return float(stated) if isinstance(stated, int | float) else 0.0


def _state(repetition: int) -> RetryCallState:
    from tenacity import RetryCallState, Retrying

    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = repetition
    return state
