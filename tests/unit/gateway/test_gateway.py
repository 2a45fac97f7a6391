"""Stream and generate are one path; a request the provider cannot serve is refused, never bent."""

from contextlib import aclosing

import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import ModelNotFoundError
from appliance.core.events import Completed
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import ChoiceFormat, GenerateRequest, JsonSchemaFormat, ToolSpec
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.gateway import Gateway
from appliance.providers.script import CallTool, Say, ScriptedModel
from appliance.providers.scripted import ScriptedProvider

CHAT_ONLY = ScriptedModel(name="chat-only", capabilities=frozenset(("chat",)))
CALLER = ScriptedModel(name="caller", turns=((CallTool(name="clock", arguments_json='{"zone": "UTC"}'),),))
CLOCK_TOOL = ToolSpec(name="clock", description="tells the time", parameters_json="{}")


def gateway_of(*models: ScriptedModel) -> Gateway:
    clock = VirtualClock()
    return Gateway([ScriptedProvider([model], clock) for model in models], clock)


def asked(*messages: Message, model: str = "chat-only", **changes: object) -> GenerateRequest:
    conversation = Conversation(messages or (UserMessage(text="hello there"),))
    return GenerateRequest(conversation=conversation, model=model, **changes)  # type: ignore[arg-type]


async def test_generate_is_the_drained_stream() -> None:
    gateway = gateway_of(CHAT_ONLY)
    async with aclosing(gateway.stream(asked())) as stream:
        events = [event async for event in stream]

    result = await gateway.generate(asked(owner="another"))

    completed = events[-1]
    assert isinstance(completed, Completed)
    assert isinstance(result, GenerateSuccess)
    assert result.message.text == "hello there"
    assert (result.usage, result.model) == (completed.usage, completed.model)


async def test_a_model_is_served_by_the_provider_that_knows_it() -> None:
    gateway = gateway_of(
        ScriptedModel(name="first"), ScriptedModel(name="second", turns=((Say(text="second"),),))
    )

    result = await gateway.generate(asked(model="second"))

    assert isinstance(result, GenerateSuccess)
    assert result.message.text == "second"


async def test_an_unknown_model_is_an_invalid_request() -> None:
    result = await gateway_of(CHAT_ONLY).generate(asked(model="nobody"))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "invalid_request"
    assert "nobody" in result.failure.message


async def test_counting_and_loading_an_unknown_model_raise_the_same_error() -> None:
    gateway = gateway_of(CHAT_ONLY)

    with pytest.raises(ModelNotFoundError, match="nobody"):
        await gateway.count_tokens(asked(model="nobody"))
    with pytest.raises(ModelNotFoundError, match="nobody"):
        await gateway.load("nobody")


TOOL_TALK = (
    UserMessage(text="what time is it?"),
    AssistantMessage(tool_calls=(ToolCall(call_id="1", name="clock", arguments_json="{}"),)),
    ToolMessage(call_id="1", name="clock", text="noon"),
)

BEYOND = [
    pytest.param(asked(output=JsonSchemaFormat(schema_json="{}")), "json_schema", id="schema"),
    pytest.param(asked(output=ChoiceFormat(choices=("a", "b"))), "json_schema", id="choice"),
    pytest.param(asked(tools=(CLOCK_TOOL,)), "tools", id="tools"),
    pytest.param(asked(*TOOL_TALK), "tools", id="a conversation with tool results"),
]


@pytest.mark.parametrize("request_beyond, missing", BEYOND)
async def test_what_the_model_cannot_do_is_refused_by_name(
    request_beyond: GenerateRequest, missing: str
) -> None:
    result = await gateway_of(CHAT_ONLY).generate(request_beyond)

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "invalid_request"
    assert result.failure.details["missing"] == missing
    assert result.failure.hint != ""


async def test_tool_calls_arrive_whole() -> None:
    result = await gateway_of(CALLER).generate(asked(model="caller", tools=(CLOCK_TOOL,)))

    assert isinstance(result, GenerateSuccess)
    assert result.finish_reason == "tool_calls"
    call = result.message.tool_calls[0]
    assert (call.name, call.arguments_json) == ("clock", '{"zone": "UTC"}')


async def test_closing_the_gateway_refuses_what_comes_after() -> None:
    gateway = gateway_of(CHAT_ONLY)
    await gateway.close()

    result = await gateway.generate(asked())

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "provider_unavailable"
