"""Tokens and times of an answer in one line."""

from __future__ import annotations

from appliance.cli.answering import ShownAnswer


def stats_line(shown: ShownAnswer) -> str:
    """Say what an answer cost; tokens of an interrupted one were not counted, so none are said."""
    usage, timings = shown.result.usage, shown.result.timings
    parts: list[str] = []
    if not shown.is_interrupted:
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        thinking = f" ({usage.reasoning_tokens} thinking)" if usage.reasoning_tokens else ""
        parts += [f"{usage.input_tokens} tokens in{cached}", f"{usage.output_tokens} out{thinking}"]
    if timings.load_s >= 0.05:
        parts.append(f"loaded in {timings.load_s:.1f} s")
    if timings.ttft_s:
        parts.append(f"first after {timings.ttft_s:.2f} s")
    if tpot_s := timings.tpot_s(usage.output_tokens):
        parts.append(f"{1 / tpot_s:.1f} tokens/s")
    ending = "interrupted after " if shown.is_interrupted else ""
    return " · ".join([*parts, f"{ending}{timings.total_s:.2f} s"])
