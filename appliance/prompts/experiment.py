"""Two or more prompts tried on different users: each user always gets the same one."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate

from appliance.core.errors import InvalidRequestError

_BUCKETS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One of the prompts that are compared, and its share of the users."""

    name: str
    prompt_id: str
    version: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Arms under one id. The id is part of the bucket, so that experiments do not share their users' luck.

    Raises:
        InvalidRequestError: there is no arm, two share a name, or a weight is not above 0.
    """

    id: str
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        if not self.id or not self.arms:
            raise InvalidRequestError("an experiment needs an id and an arm")
        if len({arm.name for arm in self.arms}) < len(self.arms):
            raise InvalidRequestError(f"two arms of the experiment {self.id!r} share a name")
        for arm in self.arms:
            if not 0 < arm.weight < float("inf"):
                raise InvalidRequestError(f"the weight of {arm.name!r} is {arm.weight}; it must be above 0")

    def arm_of(self, user: str) -> Arm:
        """Return the arm of a user: the same on every machine and in every version of Python."""
        position = int.from_bytes(bucket_of(self.id, user)[:4], "big") / _BUCKETS
        ends = list(accumulate(arm.weight for arm in self.arms))
        reached = (arm for arm, end in zip(self.arms, ends, strict=True) if position * ends[-1] < end)
        return next(reached, self.arms[-1])


def bucket_of(experiment_id: str, user: str) -> bytes:
    """Return what a user is within an experiment: fixed, and no name."""
    return sha256(f"{experiment_id}\0{user}".encode()).digest()
