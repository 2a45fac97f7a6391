"""Count what came before an event: tokens and seconds of earlier attempts, and of waiting."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from appliance.core.events import Completed, Failed, StreamEvent, UsageReported
from appliance.core.usage import Timings, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens and seconds that a request has taken by some point."""

    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)

    @classmethod
    def on(cls, ending: Completed | Failed) -> Spent:
        """Return what an attempt took."""
        return cls(usage=ending.usage, timings=ending.timings)

    def waited(self, duration_s: float) -> Spent:
        """Return the same with a wait after it."""
        return replace(self, timings=replace(self.timings, total_s=self.timings.total_s + duration_s))

    def added_to(self, event: StreamEvent) -> StreamEvent:
        """Return an event of a later attempt with this counted in."""
        if isinstance(event, UsageReported):
            return replace(event, usage=sum_of_usage(self.usage, event.usage))
        return self.added_to_ending(event) if isinstance(event, Completed | Failed) else event

    def added_to_ending(self, ending: Completed | Failed) -> Completed | Failed:
        """Return the end of a later attempt with this counted in."""
        usage = sum_of_usage(self.usage, ending.usage)
        summed = {name.name: getattr(self.timings, name.name) + getattr(ending.timings, name.name)
                  for name in fields(Timings)}  # fmt: skip
        # The caller's first delta is the later attempt's.
        summed["ttft_s"] = self.timings.total_s + ending.timings.ttft_s if ending.timings.ttft_s else 0.0
        return replace(ending, usage=usage, timings=Timings(**summed))


def sum_of_usage(first: Usage, second: Usage) -> Usage:
    """Return the tokens of both."""
    return Usage(**{name.name: getattr(first, name.name) + getattr(second, name.name)
                    for name in fields(Usage)})  # fmt: skip
