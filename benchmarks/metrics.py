"""What is computed from the times of one streamed request, by vLLM's definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

FORMULAS: Mapping[str, str] = {
    "ttft": "first content delta received - request sent",
    "tpot": "(e2el - ttft) / (output_tokens - 1) of one request; undefined for one token or none",
    "itl": "every gap between stream chunks, pooled over requests",
    "e2el": "last byte received - request sent",
    "output_throughput": "sum of output tokens / (last byte of all - first request sent)",
    "goodput": "output_throughput, counting only requests within the stated limits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """When one streamed request was sent, when each chunk with content came, and when its last byte did.

    All times are seconds of one monotonic clock.
    """

    sent_s: float
    chunk_times_s: tuple[float, ...]
    ended_s: float
    output_tokens: int

    @property
    def ttft_s(self) -> float | None:
        """Time to the first content delta; None where none came."""
        return self.chunk_times_s[0] - self.sent_s if self.chunk_times_s else None

    @property
    def e2el_s(self) -> float:
        """Time to the last byte."""
        return self.ended_s - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time of an output token after the first."""
        ttft_s = self.ttft_s
        if ttft_s is None or self.output_tokens <= 1:
            return None
        return (self.e2el_s - ttft_s) / (self.output_tokens - 1)

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Gaps between neighbouring chunks."""
        return tuple(later - earlier for earlier, later in pairwise(self.chunk_times_s))


def output_throughput(traces: Sequence[RequestTrace]) -> float:
    """Output tokens a second of requests that ran together.

    Raises:
        ValueError: there is no request.
    """
    if not traces:
        raise ValueError("no request, no throughput")
    began_s = min(trace.sent_s for trace in traces)
    ended_s = max(trace.ended_s for trace in traces)
    return sum(trace.output_tokens for trace in traces) / (ended_s - began_s)


def goodput(
    traces: Sequence[RequestTrace], *, ttft_limit_s: float | None = None, tpot_limit_s: float | None = None
) -> float:
    """Output tokens a second of those requests that stayed within the limits, over the time of all."""
    if not traces:
        raise ValueError("no request, no throughput")
    began_s = min(trace.sent_s for trace in traces)
    ended_s = max(trace.ended_s for trace in traces)
    good = [trace for trace in traces if is_within(trace, ttft_limit_s, tpot_limit_s)]
    return sum(trace.output_tokens for trace in good) / (ended_s - began_s)


def is_within(trace: RequestTrace, ttft_limit_s: float | None, tpot_limit_s: float | None) -> bool:
    """Whether a request kept the limits; one without any text did not."""
    ttft_s, tpot_s = trace.ttft_s, trace.tpot_s
    if ttft_s is None:
        return False
    if ttft_limit_s is not None and ttft_s > ttft_limit_s:
        return False
    return tpot_limit_s is None or tpot_s is None or tpot_s <= tpot_limit_s
