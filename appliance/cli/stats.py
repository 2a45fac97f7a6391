"""Tokens and times of an answer in one line."""

from __future__ import annotations

from appliance.cli.answering import ShownAnswer
from appliance.core.handling import Handling


def stats_line(shown: ShownAnswer) -> str:
    """Say what an answer cost, also one that was interrupted."""
    usage, timings = shown.result.usage, shown.result.timings
    parts: list[str] = []
    if usage.input_tokens or not shown.is_interrupted:
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        thinking = f" ({usage.reasoning_tokens} thinking)" if usage.reasoning_tokens else ""
        parts += [f"{usage.input_tokens} tokens in{cached}", f"{usage.output_tokens} out{thinking}"]
        if usage.estimated_tokens:
            parts.append(f"{usage.estimated_tokens} of them estimated")
    if timings.load_s >= 0.05:
        parts.append(f"loaded in {timings.load_s:.1f} s")
    if timings.ttft_s:
        parts.append(f"first after {timings.ttft_s:.2f} s")
    if tpot_s := timings.tpot_s(usage.output_tokens):
        parts.append(f"{1 / tpot_s:.1f} tokens/s")
    ending = "interrupted after " if shown.is_interrupted else ""
    return " · ".join([*parts, f"{ending}{timings.total_s:.2f} s", *handling_parts(shown.result.handling)])


def handling_parts(handling: Handling) -> list[str]:
    """Say what was unusual in how the answer came about, and what it cost."""
    parts: list[str] = []
    if handling.is_from_cache:
        parts.append("stored answer")
    if len(handling.attempts) > 1:
        parts.append(f"{len(handling.attempts)} attempts")
    if handling.cost is not None:
        cost = handling.cost
        parts.append(f"{cost.amount:.6f} {cost.currency} (prices {cost.price_version})")
    return parts
