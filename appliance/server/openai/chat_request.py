"""From the body of a chat completion to the requests the gateway answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import (
    GenerateRequest,
    JsonSchemaFormat,
    NamedTool,
    OutputFormat,
    SamplingParams,
    TextFormat,
    ToolChoice,
    ToolSpec,
)
from appliance.server.openai.chat_wire import (
    IGNORED,
    ChatBody,
    Form,
    NamedChoice,
    ObjectForm,
    SchemaForm,
    WireTool,
    WireToolChoice,
)
from appliance.server.openai.messages import conversation_of, goes_on
from appliance.server.openai.sampling import deadline_of, for_choice, sampling_of
from appliance.server.problems import refused
from appliance.server.wire import stated_names


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOrder:
    """What one chat completion asks for: a request for each answer, and how they are sent."""

    requests: tuple[GenerateRequest, ...]
    is_streamed: bool
    includes_usage: bool
    ignored: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id of the whole; it is that of the first request, so that its trace is found by it."""
        return self.requests[0].request_id


def chat_order(body: ChatBody, *, owner: str, model: str, usual: SamplingParams) -> ChatOrder:
    """Translate a body.

    Args:
        model: what answers.
        usual: the sampling of what the body leaves open.

    Raises:
        InvalidRequestError: something of it cannot be served; names the field.
    """
    _refuse_unserved(body)
    request = GenerateRequest(
        conversation=conversation_of(
            body.messages, is_open=goes_on(body.continue_final_message, body.add_generation_prompt)
        ),
        model=model,
        sampling=replace(
            sampling_of(usual, body, max_tokens=_max_tokens(body)),
            top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        ),
        output=_output(body.response_format),
        tools=_tools(body.tools or ()),
        tool_choice=_tool_choice(body.tool_choice),
        allows_several_calls=body.parallel_tool_calls is not False,
        deadline=deadline_of(body),
        owner=owner,
    )
    options = body.stream_options
    return ChatOrder(
        requests=several(request, body.n or 1),
        is_streamed=bool(body.stream),
        includes_usage=options is not None and bool(options.include_usage),
        ignored=_ignored(body),
    )


def several(request: GenerateRequest, count: int) -> tuple[GenerateRequest, ...]:
    """Return a request as often as answers are wanted, each with an id and a seed of its own."""
    return tuple(
        replace(
            request,
            sampling=for_choice(request.sampling, number),
            request_id=request.request_id if number == 0 else f"{request.request_id}-{number}",
        )
        for number in range(count)
    )


def _refuse_unserved(body: ChatBody) -> None:
    if body.top_logprobs is not None and not body.logprobs:
        raise refused(
            "top_logprobs needs logprobs",
            param="top_logprobs",
            code="invalid_value",
            hint="say logprobs: true",
        )
    if body.functions is not None or body.function_call is not None:
        name = "functions" if body.functions is not None else "function_call"
        raise refused(
            f"{name} is an older form that is not served", param=name, hint="use tools and tool_choice"
        )
    if body.audio is not None or any(kind != "text" for kind in body.modalities or ()):
        raise refused("answers here are text", param="modalities" if body.modalities else "audio")
    if body.web_search_options is not None:
        raise refused("this server looks nothing up on the web", param="web_search_options")
    if body.stream_options is not None and not body.stream:
        raise refused("stream_options needs stream", param="stream_options", code="invalid_value")


def _max_tokens(body: ChatBody) -> int | None:
    older, newer = body.max_tokens, body.max_completion_tokens
    if older is not None and newer is not None and older != newer:
        raise refused(
            f"max_tokens is {older} and max_completion_tokens is {newer}", param="max_completion_tokens",
            code="invalid_value", hint="state one of them",
        )  # fmt: skip
    return newer if newer is not None else older


def _output(form: Form | None) -> OutputFormat:
    match form:
        case SchemaForm(json_schema=named):
            if named.schema_ is None:
                raise SchemaRejectedError(
                    "the schema is missing", pointer="response_format.json_schema.schema", hint="state it"
                )
            return JsonSchemaFormat(schema_json=json.dumps(named.schema_), name=named.name)
        case ObjectForm():
            return JsonSchemaFormat(schema_json='{"type": "object"}', name="object")
        case _:
            return TextFormat()


def _tools(tools: Sequence[WireTool]) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(
            name=tool.function.name,
            description=tool.function.description or "",
            parameters_json=json.dumps(
                {"type": "object", "properties": {}}
                if tool.function.parameters is None
                else tool.function.parameters
            ),
        )
        for tool in tools
    )


def _tool_choice(choice: WireToolChoice | None) -> ToolChoice:
    if isinstance(choice, NamedChoice):
        return NamedTool(name=choice.function.name)
    return choice or "auto"


def _ignored(body: ChatBody) -> tuple[str, ...]:
    named = any(getattr(message, "name", None) is not None for message in body.messages)
    return (*stated_names(body, IGNORED), *(("messages.name",) if named else ()))
