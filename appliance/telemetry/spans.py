"""A span: one timed node in the tree of a request, and the record that is left of it when it ends."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import TracebackType
from typing import Literal, Protocol, Self

from appliance.core.errors import ApplianceError, Failure
from appliance.core.usage import Timings

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]
SpanStatus = Literal["ok", "error", "cancelled"]

LONGEST_TEXT = 256
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """What is kept of a span. `parent_id` is empty at the root; `content` only holds redacted texts of an
    owner who asked for them.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    owner: str
    request_id: str
    start_ns: int
    duration_ns: int
    status: SpanStatus
    attributes: Mapping[str, AttributeValue]
    content: Mapping[str, str]


@dataclass(slots=True)
class _State:
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)
    status: SpanStatus = "ok"
    is_ended: bool = False


class Recorder(Protocol):
    """What a span needs of the telemetry that made it."""

    def now_s(self) -> float:
        """Seconds on the clock that times spans."""
        ...

    def wall_ns(self, at_s: float) -> int:
        """Nanoseconds since 1970 of a time on that clock."""
        ...

    def redacted(self, owner: str, text: str) -> str | None:
        """Return what of a text may be kept for this owner, or nothing."""
        ...

    def keep(self, record: SpanRecord) -> None:
        """Take the record of a span that has ended."""
        ...


class Span:
    """A timed node. As a context it ends by itself, and an exception that passes becomes its failure."""

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        *,
        owner: str,
        request_id: str,
        parent: Span | None,
        start_s: float,
    ) -> None:
        self.name = name
        self.owner = owner
        self.request_id = request_id
        self.trace_id: str = parent.trace_id if parent is not None else trace_id_of(request_id)
        self.span_id = secrets.token_hex(8)
        self.start_s = start_s
        self._parent_id = parent.span_id if parent is not None else ""
        self._recorder = recorder
        self._state = _State()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is not None:
            self._note_exception(exc)
        self.end()

    def child(self, name: str, attributes: Attributes | None = None) -> Span:
        """Begin a span below this one."""
        span = Span(
            self._recorder,
            name,
            owner=self.owner,
            request_id=self.request_id,
            parent=self,
            start_s=self._recorder.now_s(),
        )
        span.set(attributes or {})
        return span

    def set(self, attributes: Attributes) -> None:
        """Add facts. A text is a name or a code, never what someone wrote; it is cut to a bound."""
        for name, value in attributes.items():
            self._state.attributes[name] = value[:LONGEST_TEXT] if isinstance(value, str) else value

    def add_content(self, name: str, text: str) -> None:
        """Offer a text that someone wrote; it is kept, redacted, only for owners who switched that on."""
        kept = self._recorder.redacted(self.owner, text)
        if kept is not None:
            self._state.content[name] = kept

    def fail(self, failure: Failure) -> None:
        """Say what went wrong, by kind and numbers: a message may quote what someone wrote."""
        self._state.status = "cancelled" if failure.kind == "cancelled" else "error"
        self.set({"error.type": failure.kind, "appliance.retryable": failure.retryable})
        numbers = {
            f"appliance.failure.{name}": value
            for name, value in failure.details.items()
            if isinstance(value, int | float)
        }
        self.set(numbers)
        self.add_content("failure.message", failure.message)

    def add_phases(self, timings: Timings) -> None:
        """Add the engine's phases below this span, one after another, as the answer's times tell them."""
        phases = {
            "queue": timings.queue_s,
            "load": timings.load_s,
            "prefill": timings.prefill_s,
            "decode": timings.decode_s,
        }
        start_s = self.start_s
        for name, duration_s in phases.items():
            if duration_s > 0:
                self._add_past(name, start_s, duration_s)
            start_s += duration_s

    def end(self) -> None:
        """End the span; ending it again changes nothing."""
        if self._state.is_ended:
            return
        self._state.is_ended = True
        self._keep(self._recorder.now_s() - self.start_s)

    def _add_past(self, name: str, start_s: float, duration_s: float) -> None:
        span = Span(
            self._recorder, name, owner=self.owner, request_id=self.request_id, parent=self, start_s=start_s
        )
        span._state.is_ended = True
        span._keep(duration_s)

    def _note_exception(self, exc: BaseException) -> None:
        if isinstance(exc, ApplianceError):
            self.fail(exc.to_failure())
        elif isinstance(exc, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
            self._state.status = "cancelled"
        else:
            self._state.status = "error"
            self.set({"error.type": type(exc).__name__})

    def _keep(self, duration_s: float) -> None:
        self._recorder.keep(
            SpanRecord(
                trace_id=self.trace_id,
                span_id=self.span_id,
                parent_id=self._parent_id,
                name=self.name,
                owner=self.owner,
                request_id=self.request_id,
                start_ns=self._recorder.wall_ns(self.start_s),
                duration_ns=round(duration_s * 1e9),
                status=self._state.status,
                attributes=self._state.attributes,
                content=self._state.content,
            )
        )


def trace_id_of(request_id: str) -> str:
    """Return a trace id of 128 bits: the request's own id where it is one, else one made from it."""
    if not request_id:
        return secrets.token_hex(16)
    if _TRACE_ID.fullmatch(request_id) and int(request_id, 16):
        return request_id
    return blake2b(request_id.encode(), digest_size=16).hexdigest()
