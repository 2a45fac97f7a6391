"""What is computed from the times of one streamed request, by vLLM's definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Text that arrives within this time came in one write: the engine groups deltas, and so do networks.
BURST_S = 0.001

FORMULAS: Mapping[str, str] = {
    "ttft": "first content delta received - request sent",
    "ttft_queue, ttft_load, ttft_retrieve, ttft_prefill": "parts of ttft by the target's own clock",
    "ttft_rest": "ttft - the parts that the target reports: the way there and back, and what it does not report",
    "tpot": "(e2el - ttft) / (output_tokens - 1) of one request; undefined for one token or none",
    "itl": "every gap between stream chunks, about 0 between chunks of one write; percentiles pool all requests, the "
    "value is the median over requests of their median gap",
    "burst_gap": f"every gap between writes: chunks within {BURST_S * 1000:g} ms of the first are one write",
    "tokens_per_burst": "output_tokens / writes of one request; about 1 where each token is sent by itself",
    "e2el": "last byte received - request sent",
    "output_throughput": "output tokens received in the window / its length; a chunk counts output_tokens / chunks",
    "request_throughput": "requests that ended in the window / its length",
    "goodput": "output_throughput, counting only requests within the stated limits",
    "within_limits": "requests within the limits / requests sent in the window, failed ones included",
    "window": "closed loop: from when as many requests have ended as run at once until the last is sent; open loop: "
    "from a tenth of the arrivals to the last",
    "rate": "pp: prompt tokens / seconds until the first token was chosen; tg: tokens after the first / seconds for "
    "them; both by the worker's clock",
    "cpu_rate": "the same tokens / seconds of processor time that the worker used, all its threads",
    "perplexity": "exp(mean of -ln p) over the second half of each window, as llama-perplexity has it",
    "kl_divergence": "sum over tokens of p_reference * ln(p_reference / p), mean of all scored positions",
    "speedup": "seconds of the request under the usual settings / under the other value, both measured in one round",
    "passes_per_token": "forward passes / output tokens of constrained answers",
    "constrained_over_free": "constrained_rate / free_rate of one round: output tokens / seconds after the first token",
    "mixed_over_free": "mixed_rate / all_free_rate of one round: output tokens of all sequences / seconds from the "
    "first request to the last end",
    "added_to_first_token": "seconds to the first chosen token of a constrained answer - of a free one to the same "
    "prompt",
    "valid": "answers that follow their JSON Schema / answers",
    "real_over_predicted": "peak of the worker's resident memory / the peak predicted before it was loaded",
    "energy": "joules of processor packages, memory and GPUs / tokens; the whole machine's",
    "ndcg_at_10": "sum of relevant / log2(rank + 1) over ten ranks, divided by the best possible",
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

    @property
    def bursts_s(self) -> tuple[float, ...]:
        """When text arrived, chunks of one write counted once: when the first of them came."""
        began: list[float] = []
        for at_s in self.chunk_times_s:
            if not began or at_s - began[-1] >= BURST_S:
                began.append(at_s)
        return tuple(began)

    @property
    def burst_gaps_s(self) -> tuple[float, ...]:
        """Gaps between neighbouring writes: how long a reader sees nothing new."""
        return tuple(later - earlier for earlier, later in pairwise(self.bursts_s))

    @property
    def tokens_per_burst(self) -> float | None:
        """Output tokens that come with one write; None where no text came."""
        return self.output_tokens / len(self.bursts_s) if self.chunk_times_s else None


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
