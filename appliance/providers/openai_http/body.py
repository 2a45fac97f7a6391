"""A request as the JSON that a server of a given kind understands."""

from __future__ import annotations

from dataclasses import fields
from hashlib import blake2b
from typing import assert_never

from appliance.core.errors import InvalidRequestError
from appliance.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from appliance.core.requests import (
    ChoiceFormat,
    GenerateRequest,
    GrammarFormat,
    JsonSchemaFormat,
    NamedTool,
    OutputFormat,
    RegexFormat,
    SamplingParams,
    TextFormat,
    ToolSpec,
)
from appliance.providers.openai_http.dialects import Dialect
from appliance.providers.openai_http.foreign_json import JsonObject, parsed

_USUAL = SamplingParams()
_STANDARD = frozenset(
    (
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "logit_bias",
        "stop",
        "max_tokens",
        "top_logprobs",
    )
)
# What changes nothing once the most likely token is always taken.
_MOOT_WHEN_GREEDY = frozenset(("top_k", "min_p"))


def request_body(
    request: GenerateRequest, *, model: str, dialect: Dialect, asks_usage: bool, reuses_prefix: bool
) -> JsonObject:
    """Return the body of a streaming chat completion.

    Raises:
        InvalidRequestError: the request asks for something that this kind of server does not take.
    """
    body: JsonObject = {"model": model, "stream": True} | wire_turns(request)
    body |= _sampling(request.sampling, dialect) | _output(request.output) | _tools(request)
    body |= _logprobs(request)
    if asks_usage:
        body["stream_options"] = {"include_usage": True}
    if dialect.reports_progress:
        body["return_progress"] = True
    if dialect.can_skip_cache:
        body["cache_prompt"] = reuses_prefix
    if dialect.isolates_owners:
        body["cache_salt"] = blake2b(request.owner.encode(), digest_size=16, person=b"appliance").hexdigest()
    return body


def wire_turns(request: GenerateRequest) -> JsonObject:
    """Return the messages, and for an open turn what asks the server to go on inside it, as vLLM names it."""
    messages = wire_messages(request)
    open_turn = request.conversation.open_turn
    if open_turn is None:
        return {"messages": messages}
    if open_turn.reasoning:
        messages[-1]["reasoning_content"] = open_turn.reasoning
    return {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}


def wire_messages(request: GenerateRequest) -> list[JsonObject]:
    """Return the conversation's messages."""
    return [_message(message) for message in request.conversation.messages]


def wire_tools(tools: tuple[ToolSpec, ...]) -> list[JsonObject]:
    """Return tools as functions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": parsed(tool.parameters_json or "{}"),
            },
        }
        for tool in tools
    ]


def is_wrapped(output: OutputFormat) -> bool:
    """Whether the text arrives as a JSON string: servers hold answers to JSON Schemas and little else."""
    return isinstance(output, ChoiceFormat | RegexFormat)


def _message(message: Message) -> JsonObject:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case UserMessage():
            return {"role": "user", "content": message.text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case AssistantMessage():
            return _assistant(message)
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage) -> JsonObject:
    if not message.tool_calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_json},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _sampling(sampling: SamplingParams, dialect: Dialect) -> JsonObject:
    _check_taken(sampling, dialect)
    body: JsonObject = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    body |= {theirs: getattr(sampling, ours) for ours, theirs in dialect.fields.items()
             if getattr(sampling, ours) is not None}  # fmt: skip
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(sampling, name):
            body[name] = getattr(sampling, name)
    for name in ("seed", "max_tokens"):
        if getattr(sampling, name) is not None:
            body[name] = getattr(sampling, name)
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.logit_bias:
        body["logit_bias"] = {str(token_id): bias for token_id, bias in sampling.logit_bias.items()}
    return body


def _logprobs(request: GenerateRequest) -> JsonObject:
    """Ask for one alternative at least: some servers take none of them for none at all."""
    top = request.sampling.top_logprobs
    if top is None:
        return {}
    if is_wrapped(request.output):
        raise InvalidRequestError(
            "a server over HTTP writes a choice or a pattern as a JSON string, whose tokens are not those of the text",
            hint="ask for no log probabilities, or use a JSON Schema",
        )
    return {"logprobs": True, "top_logprobs": max(1, top)}


def _check_taken(sampling: SamplingParams, dialect: Dialect) -> None:
    """Refuse what was changed from its usual value and would not reach the model."""
    for parameter in fields(SamplingParams):
        name = parameter.name
        value, usual = getattr(sampling, name), getattr(_USUAL, name)
        is_taken = name in dialect.fields or (
            name in _STANDARD and (name != "logit_bias" or dialect.takes_logit_bias)
        )
        is_moot = sampling.is_greedy and name in _MOOT_WHEN_GREEDY
        if value != usual and not is_taken and not is_moot:
            kind = "this kind of server" if dialect.name == "unknown" else dialect.name
            raise InvalidRequestError(
                f"{kind} does not take {name}, which is {value}", hint=f"leave {name} at {usual}"
            )


def _output(output: OutputFormat) -> JsonObject:
    match output:
        case TextFormat():
            return {}
        case JsonSchemaFormat():
            return _schema(output.name, parsed(output.schema_json))
        case ChoiceFormat():
            return _schema("answer", {"enum": list(output.choices)})
        case RegexFormat():
            return _schema("answer", {"type": "string", "pattern": f"^(?:{output.pattern})$"})
        case GrammarFormat():
            raise InvalidRequestError(
                "a server over HTTP cannot hold an answer to a grammar", hint="use a JSON Schema or a pattern"
            )
        case _:
            assert_never(output)


def _schema(name: str, schema: object) -> JsonObject:
    described = {"name": name, "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _tools(request: GenerateRequest) -> JsonObject:
    if not request.tools:
        return {}
    choice: object = request.tool_choice
    if isinstance(request.tool_choice, NamedTool):
        choice = {"type": "function", "function": {"name": request.tool_choice.name}}
    body: JsonObject = {"tools": wire_tools(request.tools), "tool_choice": choice}
    if not request.allows_several_calls:
        body["parallel_tool_calls"] = False
    return body
