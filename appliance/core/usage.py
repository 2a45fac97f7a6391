"""What a request cost: tokens, times, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "tool_calls", "cancelled", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request. `cached_tokens` is the part of `input_tokens` that was not computed again;
    `reasoning_tokens` is part of `output_tokens`; `forward_passes` counts decode steps it took part in.
    `estimated_tokens` are those of input and output that nobody counted: the provider did not say.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    forward_passes: int = 0
    estimated_tokens: int = 0

    def gone_on_with(self, later: Usage) -> Usage:
        """Return the usage of an answer written in two parts: the prompt is that of the later one, which held the
        first part; what was written adds up.
        """
        prompt = later if later.input_tokens else self
        return Usage(
            input_tokens=prompt.input_tokens,
            cached_tokens=prompt.cached_tokens,
            output_tokens=self.output_tokens + later.output_tokens,
            reasoning_tokens=self.reasoning_tokens + later.reasoning_tokens,
            drafted_tokens=self.drafted_tokens + later.drafted_tokens,
            accepted_tokens=self.accepted_tokens + later.accepted_tokens,
            forward_passes=self.forward_passes + later.forward_passes,
            estimated_tokens=self.estimated_tokens + later.estimated_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Seconds of one request by phase. `ttft_s` is first delta minus request, 0 while there is none."""

    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    ttft_s: float = 0.0
    total_s: float = 0.0
    load_s: float = 0.0

    def gone_on_with(self, later: Timings) -> Timings:
        """Return the times of an answer written in two parts. All add up, also the two waits for a first token, so
        that what is left of the total is the time of writing.
        """
        return Timings(
            queue_s=self.queue_s + later.queue_s,
            prefill_s=self.prefill_s + later.prefill_s,
            decode_s=self.decode_s + later.decode_s,
            ttft_s=self.ttft_s + later.ttft_s,
            total_s=self.total_s + later.total_s,
            load_s=self.load_s + later.load_s,
        )

    def tpot_s(self, output_tokens: int) -> float | None:
        """Time per output token after the first, `(e2el - ttft) / (output_tokens - 1)` as vLLM defines it."""
        if output_tokens <= 1 or self.ttft_s == 0.0:
            return None
        return (self.total_s - self.ttft_s) / (output_tokens - 1)
