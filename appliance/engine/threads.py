"""How many threads a forward pass gets: all of them on a quiet machine, fewer while others use the cores.

The threads of a pass meet at a barrier after every operation, hundreds of times a token, and wait there by spinning,
which is fastest when each has a core. When another program holds a core, every barrier waits for the thread that has
none, and a token can take thirty times as long as with one thread less. Spinning shows in the processor time:
undisturbed threads use wall time times their number, disturbed ones use less.
"""

from __future__ import annotations

_LEAST_SHARE = 0.8
_LEAST_PASS_S = 0.002
_DISTURBED_PASSES = 3
_CALM_PASSES = 100
_FIRST_TRIAL_AFTER_S = 2.0
_LAST_TRIAL_AFTER_S = 60.0


class ThreadGovernor:
    """Decides the number of threads from how the last passes went. Time is given in; it never waits.

    Three disturbed passes in a row take a thread away. After a while all threads are tried again; a trial that fails
    doubles the time to the next one, a long calm run forgets that.

    Args:
        most: the number of threads on a quiet machine.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._disturbed = 0
        self._calm = 0
        self._lowered_s = 0.0
        self._trial_after_s = _FIRST_TRIAL_AFTER_S
        self.threads = most

    def observe(self, *, now_s: float, wall_s: float, processor_s: float) -> int:
        """Take the wall time and the processor time of a pass; return the threads of the next one."""
        if wall_s < _LEAST_PASS_S:
            return self.threads
        if processor_s < _LEAST_SHARE * wall_s * self.threads:
            self._disturbed, self._calm = self._disturbed + 1, 0
        else:
            self._disturbed, self._calm = 0, self._calm + 1
        if self.threads > 1 and self._disturbed >= _DISTURBED_PASSES:
            self._lower(now_s)
        elif self.threads < self._most and now_s - self._lowered_s >= self._trial_after_s:
            self.threads = self._most
            self._disturbed = self._calm = 0
        elif self.threads == self._most and self._calm >= _CALM_PASSES:
            self._trial_after_s = _FIRST_TRIAL_AFTER_S
        return self.threads

    def _lower(self, now_s: float) -> None:
        if self._lowered_s and self.threads == self._most:
            self._trial_after_s = min(2 * self._trial_after_s, _LAST_TRIAL_AFTER_S)
        self.threads -= 1
        self._lowered_s = now_s
        self._disturbed = self._calm = 0
