"""The one object that front ends and the gateway give their spans and numbers to."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from appliance.core.clock import SystemClock
from appliance.core.ports import Clock
from appliance.core.requests import LOCAL_OWNER
from appliance.telemetry.logs import detach_logs
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.redaction import redact
from appliance.telemetry.spans import Attributes, Span, SpanRecord

_ambient: ContextVar[Span | None] = ContextVar("appliance_ambient_span", default=None)


class SpanSink(Protocol):
    """Takes the records of ended spans; it neither waits nor raises."""

    def take(self, record: SpanRecord) -> None:
        """Take a record."""
        ...

    def close(self) -> None:
        """Bring what was taken to where it is kept, within a bounded time."""
        ...


class Telemetry:
    """Makes spans and holds the metrics. With no sink, spans cost two readings of the clock.

    Args:
        content_owners: the owners whose prompts and answers may be kept in spans, redacted.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        metrics: Metrics | None = None,
        sink: SpanSink | None = None,
        content_owners: frozenset[str] = frozenset(),
        log_handler: logging.Handler | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._log_handler = log_handler
        self._clock = clock or SystemClock()
        self._sink = sink
        self._content_owners = content_owners
        self._wall_at_zero_s = time.time() - self._clock.now_s()

    def span(
        self,
        name: str,
        attributes: Attributes | None = None,
        *,
        parent: Span | None = None,
        owner: str = LOCAL_OWNER,
        request_id: str = "",
    ) -> Span:
        """Begin a span below the parent, else below the ambient span, else as the root of a new trace."""
        span = Span(
            self,
            name,
            owner=owner,
            request_id=request_id,
            parent=parent or _ambient.get(),
            start_s=self._clock.now_s(),
        )
        span.set(attributes or {})
        return span

    @contextmanager
    def ambient(self, span: Span) -> Iterator[Span]:
        """Make a span the parent of those that begin inside the block and name none.

        Not for use around a `yield` of a generator: what consumes it would be inside the block as well.
        """
        token = _ambient.set(span)
        try:
            yield span
        finally:
            _ambient.reset(token)

    def close(self) -> None:
        """Bring the last records to where they are kept; it waits two seconds at most."""
        if self._sink is not None:
            self._sink.close()
        if self._log_handler is not None:
            detach_logs(self._log_handler)

    def now_s(self) -> float:
        """Seconds on the clock that times spans."""
        return self._clock.now_s()

    def wall_ns(self, at_s: float) -> int:
        """Nanoseconds since 1970 of a time on that clock."""
        return round((self._wall_at_zero_s + at_s) * 1e9)

    def redacted(self, owner: str, text: str) -> str | None:
        """Return what of a text may be kept for this owner, or nothing."""
        return redact(text) if owner in self._content_owners else None

    def keep(self, record: SpanRecord) -> None:
        """Pass the record of an ended span on."""
        if self._sink is not None:
            self._sink.take(record)
