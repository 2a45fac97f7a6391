"""What an answer cost by now, as seen from outside: for answers that end without their provider's own account."""

from __future__ import annotations

from dataclasses import replace

from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.ports import Clock
from appliance.core.usage import Timings, Usage


class Measured:
    """Follows the events of one stream.

    Where no provider counted, each delta is taken for one token, and the usage says that it is estimated.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = clock.now_s()
        self._loaded_s = self._began_s
        self._prefilled_s: float | None = None
        self._first_delta_s: float | None = None
        self._reported = Usage()
        self._deltas_since = 0
        self._thoughts_since = 0

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return replace(
            self._reported,
            output_tokens=self._reported.output_tokens + self._deltas_since,
            reasoning_tokens=self._reported.reasoning_tokens + self._thoughts_since,
            estimated_tokens=self._reported.estimated_tokens + self._deltas_since,
        )

    def note(self, event: StreamEvent) -> None:
        """Take the next event."""
        match event:
            case LoadProgress():
                self._loaded_s = self._clock.now_s()
            case PrefillProgress():
                self._prefilled_s = self._clock.now_s()
                self._report(Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens))
            case UsageReported():
                self._report(event.usage)
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                self._count(is_thought=isinstance(event, ReasoningDelta))
            case Completed() | Failed():
                pass

    def timings(self) -> Timings:
        """Seconds so far; a phase that no event ended is not told apart from the next."""
        now_s = self._clock.now_s()
        decoding_s = self._first_delta_s if self._first_delta_s is not None else now_s
        prefilled_s = self._prefilled_s if self._prefilled_s is not None else self._loaded_s
        return Timings(
            load_s=self._loaded_s - self._began_s,
            prefill_s=prefilled_s - self._loaded_s,
            decode_s=now_s - decoding_s,
            ttft_s=decoding_s - self._began_s if self._first_delta_s is not None else 0.0,
            total_s=now_s - self._began_s,
        )

    def _report(self, usage: Usage) -> None:
        self._reported = usage
        self._deltas_since = self._thoughts_since = 0

    def _count(self, *, is_thought: bool) -> None:
        if self._first_delta_s is None:
            self._first_delta_s = self._clock.now_s()
        self._deltas_since += 1
        self._thoughts_since += is_thought
