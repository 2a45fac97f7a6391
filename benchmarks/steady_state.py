"""The part of a load run in which the load was what it should be, and the figures of that part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.answers import PHASES, Answer
from benchmarks.metrics import RequestTrace, is_within
from benchmarks.records import Metric

_LEAST_REQUESTS = 5
_BATCHES = 10
_OPEN_WARM_UP_SHARE = 0.1
_GROWING = 1.5
_LEAST_A_THIRD = 5


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

    def ends_in(self, at_s: float) -> bool:
        """Whether what ended at a moment counts: the very end that begins the window is of the time before."""
        return self.began_s < at_s <= self.ended_s


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


def steadiness_doubts(answers: Sequence[Answer], window: Window) -> list[str]:
    """Say where the load grew or the answers changed inside the window, so that its figures depend on its length."""
    if not window.is_steady:
        return ["the run was too short for a steady state; its figures are of all of it"]
    inside = sorted(
        (one.trace for one in answers if one.has_succeeded and window.holds(one.trace.sent_s)),
        key=lambda trace: trace.sent_s,
    )
    doubts = []
    third_s = window.length_s / 3
    early = _mean_running(answers, window.began_s, window.began_s + third_s)
    late = _mean_running(answers, window.ended_s - third_s, window.ended_s)
    if late > _GROWING * early + 1:
        doubts.append(
            f"the target did not keep up: {early:.1f} requests ran at once in the first third of the window, "
            f"{late:.1f} in the last, so latencies depend on how long the run lasts"
        )
    third = len(inside) // 3
    if third >= _LEAST_A_THIRD:
        first, last = (median(trace.e2el_s for trace in part) for part in (inside[:third], inside[-third:]))
        if not 1 / _GROWING <= last / first <= _GROWING:
            doubts.append(
                f"no steady state: e2el went from {first * 1000:.0f} ms in the first third to {last * 1000:.0f} ms "
                "in the last"
            )
    return doubts


def _mean_running(answers: Sequence[Answer], began_s: float, ended_s: float) -> float:
    """Requests that ran at once, on average over a span."""
    running_s = sum(
        max(0.0, min(answer.trace.ended_s, ended_s) - max(answer.trace.sent_s, began_s)) for answer in answers
    )
    return running_s / (ended_s - began_s)


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
            samples=(sum(window.ends_in(answer.trace.ended_s) for answer in good) / window.length_s,),
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
    """Times of each request, and the parts of the time before the first delta that the target itself reported."""
    traces = [answer.trace for answer in answers]
    named: dict[str, list[float]] = {
        "ttft": [ttft for trace in traces if (ttft := trace.ttft_s) is not None],
        **_ttft_parts(answers),
        "tpot": [tpot for trace in traces if (tpot := trace.tpot_s) is not None],
        "e2el": [trace.e2el_s for trace in traces],
    }
    metrics = [
        Metric(name=name, unit="s", better="lower", samples=tuple(values))
        for name, values in named.items()
        if values
    ]
    metrics += _gap_metrics("itl", [trace.itl_s for trace in traces])
    metrics += _gap_metrics("burst_gap", [trace.burst_gaps_s for trace in traces])
    if sizes := tuple(size for trace in traces if (size := trace.tokens_per_burst) is not None):
        metrics.append(Metric(name="tokens_per_burst", unit="tokens", better="neither", samples=sizes))
    return metrics


def _ttft_parts(answers: Sequence[Answer]) -> dict[str, list[float]]:
    """Each part that every answer reports, and the rest, so that the parts of a request add up to its ttft."""
    known = [phase for phase in PHASES if all(phase in answer.phases for answer in answers)]
    if not known:
        return {}
    parts = {
        f"ttft_{phase.removesuffix('_s')}": [answer.phases[phase] for answer in answers] for phase in known
    }
    parts["ttft_rest"] = [
        answer.trace.ttft_s - sum(answer.phases[phase] for phase in known)
        for answer in answers
        if answer.trace.ttft_s is not None
    ]
    return parts


def _gap_metrics(name: str, gaps_s: Sequence[Sequence[float]]) -> list[Metric]:
    """Gaps of one request depend on each other, so they are kept together."""
    found = [gaps for gaps in gaps_s if gaps]
    if not found:
        return []
    return [
        Metric(
            name=name,
            unit="s",
            better="lower",
            samples=tuple(gap for gaps in found for gap in gaps),
            groups=tuple(len(gaps) for gaps in found),
        )
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
