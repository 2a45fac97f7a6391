"""Parts of answers that every OpenAI-compatible route writes alike: usage, tool calls and our own field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from appliance.core.events import Completed
from appliance.core.handling import AttemptRecord
from appliance.core.messages import ToolCall
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateSuccess
from appliance.core.usage import Timings, Usage
from appliance.server.wire import JsonObject


def added(usages: Sequence[Usage]) -> Usage:
    """Return the sum for several answers to one prompt, which counts once for each as it was read."""
    return Usage(
        input_tokens=sum(usage.input_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
        drafted_tokens=sum(usage.drafted_tokens for usage in usages),
        accepted_tokens=sum(usage.accepted_tokens for usage in usages),
        forward_passes=sum(usage.forward_passes for usage in usages),
    )


def usage_json(usage: Usage) -> JsonObject:
    """Return usage with OpenAI's names."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def tool_calls_json(calls: Sequence[ToolCall]) -> list[JsonObject]:
    """Return whole tool calls."""
    return [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_json},
        }
        for call in calls
    ]


def receipt_json(
    request: GenerateRequest,
    endings: Sequence[Completed | GenerateSuccess],
    ignored: Sequence[str] = (),
) -> JsonObject:
    """Return our own field: who really answered, how long each phase took, and what was not used."""
    first = endings[0]
    return {
        "request_id": request.request_id,
        "provider": first.model.provider,
        "model": first.model.name,
        "digest": first.model.digest,
        "timings": [timings_json(ending.timings, ending.usage) for ending in endings],
        "is_from_cache": all(ending.handling.is_from_cache for ending in endings),
        "attempts": [_attempt_json(one) for ending in endings for one in ending.handling.attempts],
        "cost": [asdict(ending.handling.cost) for ending in endings if ending.handling.cost is not None],
        "drafted_tokens": sum(ending.usage.drafted_tokens for ending in endings),
        "accepted_tokens": sum(ending.usage.accepted_tokens for ending in endings),
        "ignored": list(ignored),
    }


def _attempt_json(attempt: AttemptRecord) -> JsonObject:
    return {"provider": attempt.provider, "model": attempt.model, "failure": attempt.failure}


def timings_json(timings: Timings, usage: Usage) -> JsonObject:
    """Return the phases of one answer in seconds."""
    return {**asdict(timings), "tpot_s": timings.tpot_s(usage.output_tokens)}


def fingerprint(ending: Completed | GenerateSuccess) -> str:
    """Return what identifies the weights that answered."""
    return f"fp_{ending.model.digest[:12]}" if ending.model.digest else "fp_unknown"
