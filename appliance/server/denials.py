"""Writes refused tokens into the audit log: the first at once, then a count a minute, so that nobody can fill it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from appliance.server.teams.audit import AuditLog

_INTERVAL_S = 60.0


class Denials:
    """Counts refusals; `note` blocks while it writes."""

    def __init__(self, audit: AuditLog, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._audit = audit
        self._now_s = now_s
        self._count = 0
        self._last_s: float | None = None
        self._lock = threading.Lock()

    def note(self, reason: str) -> None:
        """Count a refusal, and write it down when the last entry is a minute old."""
        with self._lock:
            self._count += 1
            now_s = self._now_s()
            if self._last_s is not None and now_s - self._last_s < _INTERVAL_S:
                return
            self._last_s, count, self._count = now_s, self._count, 0
        self._audit.append("", "authentication.refused", reason, count=count)
