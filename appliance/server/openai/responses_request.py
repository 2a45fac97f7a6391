"""From the body of `POST /v1/responses` to the one request the gateway answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
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
from appliance.server.openai.chat_wire import ObjectForm
from appliance.server.openai.responses_wire import (
    CallItem,
    CallOutputItem,
    FlatSchemaForm,
    InputItem,
    InputMessage,
    InputPart,
    InputText,
    NamedFunction,
    ReasoningItem,
    ResponsesBody,
)
from appliance.server.problems import refused

LOGPROBS = "message.output_text.logprobs"
"""What `include` names to have log-probabilities with the text; of what it names besides, nothing is there."""

_STATEFUL = ("previous_response_id", "conversation", "prompt")


def response_request(
    body: ResponsesBody, *, owner: str, model: str, usual: SamplingParams
) -> GenerateRequest:
    """Translate a body.

    Raises:
        InvalidRequestError: something of it cannot be served; names the field.
    """
    _refuse_unserved(body)
    sampling = replace(
        usual,
        temperature=usual.temperature if body.temperature is None else body.temperature,
        top_p=usual.top_p if body.top_p is None else body.top_p,
        max_tokens=body.max_output_tokens or usual.max_tokens,
        top_logprobs=(body.top_logprobs or 0) if LOGPROBS in (body.include or ()) else None,
    )
    return GenerateRequest(
        conversation=_conversation(body),
        model=model,
        sampling=sampling,
        output=_output(body),
        tools=_tools(body),
        tool_choice=_tool_choice(body),
        allows_several_calls=body.parallel_tool_calls is not False,
        owner=owner,
    )


def _refuse_unserved(body: ResponsesBody) -> None:
    for name in _STATEFUL:
        if getattr(body, name) is not None:
            raise refused(
                f"{name} refers to something that is kept, and nothing is kept of responses here",
                param=name,
                hint="send the whole conversation as input",
            )
    if body.store:
        raise refused("responses are not kept here", param="store", hint="leave it out, or say false")
    if body.background:
        raise refused("responses are not made in the background", param="background")
    if body.max_tool_calls is not None:
        raise refused("the server calls no tools itself", param="max_tool_calls")
    if body.top_logprobs is not None and LOGPROBS not in (body.include or ()):
        raise refused(
            f"top_logprobs needs {LOGPROBS!r} in include", param="top_logprobs", code="invalid_value"
        )


def _conversation(body: ResponsesBody) -> Conversation:
    items: Sequence[InputItem] = (
        [InputMessage(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    )
    leading = 0
    while leading < len(items) and _is_instruction(items[leading]):
        leading += 1
    texts = [body.instructions or ""]
    for place, item in enumerate(items[:leading]):
        assert isinstance(item, InputMessage)
        texts.append(_text(item.content, f"input[{place}]"))
    system = "\n\n".join(text for text in texts if text)
    messages: list[Message] = [SystemMessage(text=system)] if system else []
    names: dict[str, str] = {}
    for place, item in enumerate(items[leading:], start=leading):
        _add(messages, item, f"input[{place}]", names)
    return Conversation(tuple(messages))


def _is_instruction(item: InputItem) -> bool:
    return isinstance(item, InputMessage) and item.role in ("system", "developer")


def _add(messages: list[Message], item: InputItem, place: str, names: dict[str, str]) -> None:
    match item:
        case InputMessage(role="user"):
            messages.append(UserMessage(text=_text(item.content, place)))
        case InputMessage(role="assistant"):
            _add_answer(messages, AssistantMessage(text=_text(item.content, place)))
        case InputMessage():
            raise refused(
                f"{place} is of the {item.role}; instructions stand before everything else",
                param=place,
                hint="move it to the beginning, or into instructions",
            )
        case CallItem():
            names[item.call_id] = item.name
            call = ToolCall(call_id=item.call_id, name=item.name, arguments_json=item.arguments)
            _add_answer(messages, AssistantMessage(tool_calls=(call,)))
        case CallOutputItem():
            name = names.get(item.call_id, "")
            if not name:
                raise refused(
                    f"{place} answers the call {item.call_id[:80]!r}, which no item before it made",
                    param=f"{place}.call_id",
                    code="invalid_value",
                )
            text = _text(item.output, place)
            messages.append(ToolMessage(call_id=item.call_id, name=name, text=text))
        case ReasoningItem():
            pass


def _add_answer(messages: list[Message], answer: AssistantMessage) -> None:
    """Join what the assistant did in one turn: text and calls are separate items on the wire."""
    last = messages[-1] if messages else None
    if not isinstance(last, AssistantMessage):
        messages.append(answer)
        return
    text = "\n\n".join(each for each in (last.text, answer.text) if each)
    messages[-1] = AssistantMessage(text=text, tool_calls=(*last.tool_calls, *answer.tool_calls))


def _text(content: str | Sequence[InputPart], place: str) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for number, part in enumerate(content):
        if not isinstance(part, InputText):
            raise refused(
                f"{place}.content[{number}] is {part.type}; models here read text only",
                param=f"{place}.content[{number}]",
                code="unsupported_content",
            )
        texts.append(part.text)
    return "".join(texts)


def _output(body: ResponsesBody) -> OutputFormat:
    form = None if body.text is None else body.text.format
    match form:
        case FlatSchemaForm():
            return JsonSchemaFormat(schema_json=json.dumps(form.schema_), name=form.name)
        case ObjectForm():
            return JsonSchemaFormat(schema_json='{"type": "object"}', name="object")
        case _:
            return TextFormat()


def _tools(body: ResponsesBody) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(
            name=tool.name,
            description=tool.description or "",
            parameters_json=json.dumps(
                {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
            ),
        )
        for tool in body.tools or ()
    )


def _tool_choice(body: ResponsesBody) -> ToolChoice:
    choice = body.tool_choice
    return NamedTool(name=choice.name) if isinstance(choice, NamedFunction) else choice or "auto"
