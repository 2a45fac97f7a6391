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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Seconds of one request by phase. `ttft_s` is first delta minus request, 0 while there is none."""

    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    ttft_s: float = 0.0
    total_s: float = 0.0
    load_s: float = 0.0

    def tpot_s(self, output_tokens: int) -> float | None:
        """Time per output token after the first, `(e2el - ttft) / (output_tokens - 1)` as vLLM defines it."""
        if output_tokens <= 1 or self.ttft_s == 0.0:
            return None
        return (self.total_s - self.ttft_s) / (output_tokens - 1)
