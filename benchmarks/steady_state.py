"""The part of a load run in which the load was what it should be, and the figures of that part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan

from benchmarks.answers import PHASES, Answer
from benchmarks.metrics import RequestTrace, is_within
from benchmarks.records import Metric

_LEAST_REQUESTS = 5
_BATCHES = 10
_OPEN_WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span of the client's clock; `is_steady` is false where the run was too short and the span is all of it."""

    began_s: float
    ended_s: float
    is_steady: bool

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.ended_s - self.began_s

    def holds(self, at_s: float) -> bool:
        """Whether a moment lies in it."""
        return self.began_s <= at_s <= self.ended_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request must keep to count as good; None is no limit."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2el_s: float | None = None

    @property
    def is_stated(self) -> bool:
        """Whether there is any limit."""
        return (self.ttft_s, self.tpot_s, self.e2el_s) != (None, None, None)

    def admits(self, trace: RequestTrace) -> bool:
        """Whether a request kept them."""
        return is_within(trace, self.ttft_s, self.tpot_s) and (
            self.e2el_s is None or trace.e2el_s <= self.e2el_s
        )


def closed_window(answers: Sequence[Answer], concurrency: int) -> Window:
    """From the moment when as many requests have ended as run at once, to when the last one was sent."""
    ends = sorted(answer.trace.ended_s for answer in answers)
    last_sent_s = max(answer.trace.sent_s for answer in answers)
    warm_s = ends[min(concurrency, len(ends)) - 1]
    return _window(answers, warm_s, last_sent_s)


def open_window(answers: Sequence[Answer]) -> Window:
    """From the first tenth of the arrivals to the last of them."""
    sent = sorted(answer.trace.sent_s for answer in answers)
    return _window(answers, sent[int(len(sent) * _OPEN_WARM_UP_SHARE)], sent[-1])


def _window(answers: Sequence[Answer], began_s: float, ended_s: float) -> Window:
    inside = [answer for answer in answers if began_s <= answer.trace.sent_s <= ended_s]
    if len(inside) >= _LEAST_REQUESTS and ended_s > began_s:
        return Window(began_s=began_s, ended_s=ended_s, is_steady=True)
    return Window(
        began_s=min(answer.trace.sent_s for answer in answers),
        ended_s=max(answer.trace.ended_s for answer in answers),
        is_steady=False,
    )


def window_metrics(answers: Sequence[Answer], window: Window, limits: Limits) -> list[Metric]:
    """Latencies of requests sent in the window; throughput of what arrived in it, in ten parts of equal length.

    The parts give throughput a spread: neighbouring tokens depend on each other, parts of the window hardly do.
    """
    good = [answer for answer in answers if answer.has_succeeded]
    inside = [answer for answer in good if window.holds(answer.trace.sent_s)]
    metrics = latency_metrics(inside)
    if window.length_s <= 0:
        return metrics
    metrics.append(_throughput("output_throughput", good, window))
    metrics.append(
        Metric(
            name="request_throughput",
            unit="requests/s",
            better="higher",
            samples=(sum(window.holds(answer.trace.ended_s) for answer in good) / window.length_s,),
        )
    )
    if limits.is_stated:
        kept = [answer for answer in good if limits.admits(answer.trace)]
        metrics.append(_throughput("goodput", kept, window))
        sent = [answer for answer in answers if window.holds(answer.trace.sent_s)]
        shares = tuple(float(answer.has_succeeded and limits.admits(answer.trace)) for answer in sent)
        if shares:
            metrics.append(
                Metric(name="within_limits", unit="share", better="higher", samples=shares, statistic="mean")
            )
    return metrics


def latency_metrics(answers: Sequence[Answer]) -> list[Metric]:
    """Times of each request, and the phases before the first delta that the target itself reported."""
    traces = [answer.trace for answer in answers]
    named: dict[str, list[float]] = {
        "ttft": [ttft for trace in traces if (ttft := trace.ttft_s) is not None],
        "tpot": [tpot for trace in traces if (tpot := trace.tpot_s) is not None],
        "itl": [gap for trace in traces for gap in trace.itl_s],
        "e2el": [trace.e2el_s for trace in traces],
    }
    for phase in PHASES:
        values = [answer.phases.get(phase, nan) for answer in answers]
        if values and not any(isnan(value) for value in values):
            named[f"ttft_{phase.removesuffix('_s')}"] = values
    return [
        Metric(name=name, unit="s", better="lower", samples=tuple(values))
        for name, values in named.items()
        if values
    ]


def _throughput(name: str, answers: Sequence[Answer], window: Window) -> Metric:
    part_s = window.length_s / _BATCHES
    tokens = [0.0] * _BATCHES
    for answer in answers:
        times = answer.trace.chunk_times_s
        each = answer.trace.output_tokens / len(times) if times else 0.0
        for at_s in times:
            if window.holds(at_s):
                tokens[min(int((at_s - window.began_s) / part_s), _BATCHES - 1)] += each
    return Metric(
        name=name,
        unit="tokens/s",
        better="higher",
        samples=tuple(count / part_s for count in tokens),
        statistic="mean",
    )
