"""How the arms of experiments did: one outcome a request, and what they say together."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isfinite, sqrt
from pathlib import Path

from appliance.core.errors import InvalidRequestError, StorageError
from appliance.prompts.experiment import Arm, Experiment, bucket_of

OUTCOMES_FILE = "experiments.db"
"""The name of the file; in the folder of the state, `forget` finds it."""

_BUSY_TIMEOUT_S = 5.0
_Z_95 = 1.959964
_SCHEMA = """
CREATE TABLE IF NOT EXISTS outcomes (
    experiment TEXT NOT NULL, request_id TEXT NOT NULL, arm TEXT NOT NULL, bucket TEXT NOT NULL,
    score REAL NOT NULL, recorded_at REAL NOT NULL,
    PRIMARY KEY (experiment, request_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outcomes_by_bucket ON outcomes (bucket);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """The outcomes of an arm: the mean score and the bounds of its 95 % interval (Wilson's, for scores 0 to 1)."""

    arm: str
    outcomes: int
    users: int
    mean: float
    low: float
    high: float


class Outcomes:
    """The file of outcomes. Users stand in it as buckets, not by name.

    Raises:
        StorageError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Not opened when it is there: closing it would drop the locks that SQLite holds on it in this process.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            for pragma in ("journal_mode=WAL", "secure_delete=ON", "trusted_schema=OFF"):
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
            self._connection.executescript(_SCHEMA)

    def record(self, experiment: Experiment, arm: Arm, user: str, request_id: str, score: float) -> None:
        """Keep the outcome of a request, 0 to 1; a second one for the same request replaces the first.

        Raises:
            InvalidRequestError: the score is not from 0 to 1, or the arm is none of the experiment.
            StorageError: it cannot be kept.
        """
        if not isfinite(score) or not 0 <= score <= 1:
            raise InvalidRequestError(f"an outcome is a score from 0 to 1, not {score}")
        if arm not in experiment.arms:
            raise InvalidRequestError(f"the experiment {experiment.id!r} has no arm {arm.name!r} like this")
        bucket = bucket_of(experiment.id, user).hex()
        with self._translated():
            self._connection.execute(
                "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?)",
                (experiment.id, request_id, arm.name, bucket, score, time.time()),
            )

    def summaries(self, experiment: Experiment) -> list[ArmSummary]:
        """Say how each arm did, in the order of the arms."""
        with self._translated():
            rows = self._connection.execute(
                "SELECT arm, count(*), count(DISTINCT bucket), avg(score) FROM outcomes "
                "WHERE experiment = ? GROUP BY arm",
                (experiment.id,),
            ).fetchall()
        found = {str(arm): (int(count), int(users), float(mean)) for arm, count, users, mean in rows}
        return [_summary(arm.name, *found.get(arm.name, (0, 0, 0.0))) for arm in experiment.arms]

    def forget_user(self, user: str) -> int:
        """Remove a user's outcomes of every experiment; return how many there were."""
        with self._translated():
            ids = self._connection.execute("SELECT DISTINCT experiment FROM outcomes").fetchall()
            buckets = [(bucket_of(str(experiment_id), user).hex(),) for (experiment_id,) in ids]
            return self._connection.executemany("DELETE FROM outcomes WHERE bucket = ?", buckets).rowcount

    def close(self) -> None:
        """Close the file."""
        with self._translated():
            self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as exc:
            raise StorageError(
                f"the outcomes in {self._path} cannot be used: {exc}", hint="check the disk and the file"
            ) from exc


def _summary(arm: str, count: int, users: int, mean: float) -> ArmSummary:
    low, high = _wilson(mean, count)
    return ArmSummary(arm=arm, outcomes=count, users=users, mean=mean, low=low, high=high)


def _wilson(mean: float, count: int) -> tuple[float, float]:
    """Wilson's score interval; of nothing it is everything."""
    if not count:
        return 0.0, 1.0
    spread = _Z_95**2 / count
    centre = (mean + spread / 2) / (1 + spread)
    half = _Z_95 * sqrt(mean * (1 - mean) / count + spread / (4 * count)) / (1 + spread)
    return max(centre - half, 0.0), min(centre + half, 1.0)
