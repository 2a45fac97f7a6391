"""Counts, gauges and histograms of what the gateway does, and their Prometheus text.

Recording is a lock and an addition; the Prometheus library is imported when the text is asked for.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass

from appliance.core.events import Completed, Failed
from appliance.core.usage import Timings, Usage

Labels = tuple[str, ...]

MOST_SERIES = 256
_OTHER = "other"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLabels:
    """Who answered, as labels: names of configuration, never of a caller."""

    provider: str
    model: str


class Counter:
    """A number that only grows, by labels."""

    def __init__(self, name: str, text: str, label_names: Labels) -> None:
        self.name, self.text, self.label_names = name, text, label_names
        self._values: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Count."""
        with self._lock:
            key = _bounded(labels, self._values)
            self._values[key] = self._values.get(key, 0.0) + amount

    def values(self) -> dict[Labels, float]:
        """Return the counts by labels."""
        with self._lock:
            return dict(self._values)


class Gauge(Counter):
    """A number that rises and falls, by labels."""

    def set(self, *labels: str, value: float) -> None:
        """State the number."""
        with self._lock:
            self._values[_bounded(labels, self._values)] = value


class Histogram:
    """A distribution of seconds in fixed buckets, by labels."""

    def __init__(self, name: str, text: str, label_names: Labels, bounds: tuple[float, ...]) -> None:
        self.name, self.text, self.label_names, self.bounds = name, text, label_names, bounds
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def observe(self, *labels: str, value_s: float) -> None:
        """Add one observation."""
        with self._lock:
            key = _bounded(labels, self._counts)
            counts = self._counts.setdefault(key, [0] * (len(self.bounds) + 1))
            counts[bisect_left(self.bounds, value_s)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value_s

    def values(self) -> dict[Labels, tuple[list[int], float]]:
        """Return the counts of each bucket and the sum, by labels."""
        with self._lock:
            return {key: (list(counts), self._sums[key]) for key, counts in self._counts.items()}


_WHO: Labels = ("provider", "model")


class Metrics:
    """Every metric of the appliance."""

    def __init__(self) -> None:
        self.requests = Counter("appliance_requests", "Requests by how they ended", (*_WHO, "outcome"))
        self.ttft = Histogram("appliance_ttft_seconds", "Seconds to the first delta", _WHO, _SECONDS)
        self.tpot = Histogram(
            "appliance_tpot_seconds", "Seconds per output token after the first", _WHO, _TOKEN_SECONDS
        )
        self.e2el = Histogram("appliance_e2el_seconds", "Seconds of a whole request", _WHO, _SECONDS)
        self.queue_wait = Histogram("appliance_queue_wait_seconds", "Seconds in the queue", _WHO, _SECONDS)
        self.input_tokens = Counter("appliance_input_tokens", "Prompt tokens, cached ones included", _WHO)
        self.cached_tokens = Counter("appliance_cached_tokens", "Prompt tokens that were reused", _WHO)
        self.output_tokens = Counter("appliance_output_tokens", "Tokens written", _WHO)
        self.attempts = Counter("appliance_attempts", "Calls of a provider", (*_WHO, "outcome"))
        self.retries = Counter(
            "appliance_retries", "Repeated attempts by what failed before", (*_WHO, "kind")
        )
        self.fallbacks = Counter(
            "appliance_fallbacks", "Changes of candidate by what failed", (*_WHO, "kind")
        )
        self.validation_failures = Counter(
            "appliance_validation_failures", "Answers that were not what was asked for", _WHO
        )
        self.cache_lookups = Counter("appliance_cache_lookups", "Look-ups of kept answers", ("outcome",))
        self.rejections = Counter("appliance_rejections", "Requests refused before a model ran", ("kind",))
        self.queue_depth = Gauge("appliance_queue_depth", "Requests that wait for admission", ())
        self.running = Gauge("appliance_requests_running", "Requests that run", ())
        self.spans_dropped = Counter("appliance_spans_dropped", "Spans lost because the queue was full", ())

    def observe_ending(self, labels: RequestLabels, ending: Completed | Failed) -> None:
        """Count a request that has ended: outcome, tokens and seconds."""
        who = (labels.provider, labels.model)
        outcome = ending.finish_reason if isinstance(ending, Completed) else ending.failure.kind
        self.requests.add(*who, outcome)
        self._count_tokens(who, ending.usage)
        self._observe_times(who, ending.usage, ending.timings)

    def render(self) -> str:
        """Return every metric in Prometheus text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        from appliance.telemetry.exposition import MetricsCollector

        registry = CollectorRegistry(auto_describe=False)
        registry.register(MetricsCollector(self))
        return generate_latest(registry).decode()

    def counters(self) -> list[Counter]:
        """Return the counters, gauges left out."""
        return [metric for metric in vars(self).values() if type(metric) is Counter]

    def gauges(self) -> list[Gauge]:
        """Return the gauges."""
        return [metric for metric in vars(self).values() if isinstance(metric, Gauge)]

    def histograms(self) -> list[Histogram]:
        """Return the histograms."""
        return [metric for metric in vars(self).values() if isinstance(metric, Histogram)]

    def _count_tokens(self, who: Labels, usage: Usage) -> None:
        self.input_tokens.add(*who, amount=usage.input_tokens)
        self.cached_tokens.add(*who, amount=usage.cached_tokens)
        self.output_tokens.add(*who, amount=usage.output_tokens)

    def _observe_times(self, who: Labels, usage: Usage, timings: Timings) -> None:
        self.e2el.observe(*who, value_s=timings.total_s)
        if timings.ttft_s > 0:
            self.ttft.observe(*who, value_s=timings.ttft_s)
        tpot_s = timings.tpot_s(usage.output_tokens)
        if tpot_s is not None:
            self.tpot.observe(*who, value_s=tpot_s)


def _bounded(labels: Labels, known: object) -> Labels:
    """Return the labels, or one that stands for all further ones: series must not grow without bound."""
    assert isinstance(known, dict)
    if labels in known or len(known) < MOST_SERIES:
        return labels
    return (_OTHER,) * len(labels)
