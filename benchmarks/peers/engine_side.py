"""Asks the engine as its callers do and times it by their clock and by the worker's."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import monotonic, perf_counter

from appliance.core.errors import ApplianceError
from appliance.core.events import Completed, Failed, TextDelta
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings, Usage
from appliance.engine.client import Engine
from benchmarks.metrics import RequestTrace
from benchmarks.noise import process_cpu_s


class EngineFailedError(ApplianceError):
    """The engine did not answer a request of a benchmark, or not as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAnswer:
    """One streamed answer of the engine.

    `first_delta_lag_s` is from the moment the worker had the first text until the caller had the event.
    `decode_cpu_s` is the worker's CPU time between the first delta and the end, `prefill_cpu_s` before it.
    """

    trace: RequestTrace
    text: str
    usage: Usage
    timings: Timings
    first_delta_lag_s: float
    prefill_cpu_s: float
    decode_cpu_s: float

    @property
    def decode_rate_worker(self) -> float:
        """Tokens a second after the first, by the worker's clock."""
        return (self.usage.output_tokens - 1) / self.timings.decode_s

    @property
    def decode_rate_caller(self) -> float:
        """Tokens a second after the first, by the caller's clock."""
        began_s = self.trace.chunk_times_s[0]
        return (self.usage.output_tokens - 1) / (self.trace.ended_s - began_s)

    @property
    def prefill_rate_worker(self) -> float:
        """Prompt tokens a second until the first token was chosen, by the worker's clock."""
        return (self.usage.input_tokens - self.usage.cached_tokens) / self.timings.prefill_s

    @property
    def prefill_rate_caller(self) -> float:
        """Prompt tokens a second until the first delta, by the caller's clock."""
        return (self.usage.input_tokens - self.usage.cached_tokens) / (self.trace.ttft_s or float("inf"))


class StampedLags(deque[float]):
    """The engine's record of delivery lags that also keeps when the newest one was taken.

    The engine notes the way from the worker to the parent's reader; with the time of that note a caller can add
    the rest of the way, from the reader to itself.
    """

    noted_at_s: float = 0.0

    def append(self, lag_s: float) -> None:
        """Note a lag and the time."""
        self.noted_at_s = monotonic()
        super().append(lag_s)

    def until_now_s(self) -> float:
        """From the worker's stamp of the newest event until now."""
        return self[-1] + monotonic() - self.noted_at_s if self else 0.0


async def ask(engine: Engine, request: GenerateRequest) -> EngineAnswer:
    """Stream one answer to its end.

    Raises:
        EngineFailedError: it failed, or brought no text.
    """
    times: list[float] = []
    pieces: list[str] = []
    lags = engine.delivery_lags_s = StampedLags(maxlen=64)
    lag_s = 0.0
    end: Completed | None = None
    cpu_s = [_worker_cpu_s(engine)]
    sent_s = received_s = perf_counter()
    async for event in engine.stream(request):
        if isinstance(event, TextDelta) and not times:
            lag_s = lags.until_now_s()
        received_s = perf_counter()
        if isinstance(event, TextDelta):
            if not times:
                cpu_s.append(_worker_cpu_s(engine))
            times.append(received_s)
            pieces.append(event.text)
        elif isinstance(event, Failed):
            raise EngineFailedError(f"the engine failed: {event.failure.message}", hint=event.failure.hint)
        elif isinstance(event, Completed):
            end = event
            cpu_s.append(_worker_cpu_s(engine))
    if end is None or not times:
        raise EngineFailedError("the engine answered without any text")
    return EngineAnswer(
        trace=RequestTrace(
            sent_s=sent_s,
            chunk_times_s=tuple(times),
            ended_s=received_s,
            output_tokens=end.usage.output_tokens,
        ),
        text="".join(pieces),
        usage=end.usage,
        timings=end.timings,
        first_delta_lag_s=lag_s,
        prefill_cpu_s=cpu_s[1] - cpu_s[0],
        decode_cpu_s=cpu_s[2] - cpu_s[1],
    )


def _worker_cpu_s(engine: Engine) -> float:
    return process_cpu_s(engine.pid) if engine.pid is not None else 0.0
