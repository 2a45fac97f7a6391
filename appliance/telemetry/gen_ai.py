"""The names of facts in spans: OpenTelemetry's for generative AI, ours under `appliance.`."""

from __future__ import annotations

from appliance.core.events import Completed, Failed
from appliance.core.requests import GenerateRequest
from appliance.telemetry.spans import AttributeValue

CHAT_ATTRIBUTE = "gen_ai.conversation.id"


def request_attributes(request: GenerateRequest) -> dict[str, AttributeValue]:
    """Say what was asked for, in numbers and names."""
    sampling = request.sampling
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.model,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k,
        "gen_ai.output.type": "json" if request.output.kind == "json_schema" else "text",
        "appliance.output": request.output.kind,
        "appliance.tools": len(request.tools),
        "appliance.messages": len(request.conversation.messages),
    }
    if sampling.max_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = sampling.max_tokens
    if sampling.seed is not None:
        attributes["gen_ai.request.seed"] = sampling.seed
    if request.conversation_id:
        attributes[CHAT_ATTRIBUTE] = request.conversation_id
    if request.prompt_id:
        attributes["appliance.prompt.id"] = request.prompt_id
        attributes["appliance.prompt.version"] = request.prompt_version
    return attributes


def ending_attributes(ending: Completed | Failed) -> dict[str, AttributeValue]:
    """Say how a request ended: tokens, seconds, and who answered."""
    usage, timings = ending.usage, ending.timings
    attributes: dict[str, AttributeValue] = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "appliance.usage.reasoning_tokens": usage.reasoning_tokens,
        "appliance.ttft_s": round(timings.ttft_s, 6),
    }
    tpot_s = timings.tpot_s(usage.output_tokens)
    if tpot_s is not None:
        attributes["appliance.tpot_s"] = round(tpot_s, 6)
    if isinstance(ending, Completed):
        attributes["gen_ai.response.finish_reasons"] = ending.finish_reason
        attributes["gen_ai.response.model"] = ending.model.name
        attributes["gen_ai.provider.name"] = ending.model.provider
        attributes["appliance.model.digest"] = ending.model.digest
    return attributes
