"""What a request needs of a provider, and the refusal when the provider cannot do it."""

from __future__ import annotations

from appliance.core.capabilities import Capability, ProviderCapabilities
from appliance.core.errors import InvalidRequestError
from appliance.core.messages import AssistantMessage, ToolMessage
from appliance.core.requests import GenerateRequest

_PLAIN: dict[Capability, str] = {
    "chat": "chat",
    "json_schema": "hold the answer to an output format",
    "tools": "call tools",
    "parallel_tools": "call several tools at a time",
    "reasoning": "think before it answers",
    "vision": "see images",
    "embed": "embed texts",
    "rerank": "order passages",
    "streaming_usage": "count tokens while it answers",
    "logprobs": "give log probabilities",
    "raw_prompt": "continue a text without a chat template",
    "open_turn": "go on inside an answer that was cut off",
}


def needs_of(request: GenerateRequest) -> frozenset[Capability]:
    """Return the capabilities without which the request would be served wrongly."""
    needs: set[Capability] = {"chat", *request.routing.capabilities}
    if request.output.kind != "text":
        needs.add("json_schema")
    if request.sampling.top_logprobs is not None:
        needs.add("logprobs")
    if request.is_raw:
        needs.add("raw_prompt")
    if request.conversation.is_open:
        needs.add("open_turn")
    speaks_of_tools = any(
        isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in request.conversation.messages
    )
    if request.tools or speaks_of_tools:
        needs.add("tools")
    return frozenset(needs)


def check_needs(request: GenerateRequest, offered: ProviderCapabilities) -> None:
    """Refuse what the provider cannot do, so that nothing asked for is dropped.

    Raises:
        InvalidRequestError: the request needs a capability that is not offered.
    """
    missing = sorted(needs_of(request) - offered.capabilities)
    if missing:
        listed = " and ".join(_PLAIN.get(capability, capability) for capability in missing)
        raise InvalidRequestError(
            f"the model {request.model!r} cannot {listed}",
            hint="choose another model" if "chat" in missing else "choose another model, or ask without it",
            missing=", ".join(missing),
        )
