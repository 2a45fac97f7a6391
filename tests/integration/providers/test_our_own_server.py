"""One appliance asks another: answers, thinking, calls, tokens and failures arrive as they were."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from appliance.config.remote import RemoteModel, RemoteServer
from appliance.core.addresses import server_address
from appliance.core.answer import AnswerInProgress
from appliance.core.clock import SystemClock
from appliance.core.errors import Failure, ModelNotFoundError
from appliance.core.messages import AssistantMessage, Conversation, UserMessage
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, ToolSpec
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.providers.openai_http.provider import OpenAiHttpProvider
from tests.live_server import LiveServer, live_server

NAMES = ("greet", "call", "json", "broken", "tiny")
WEATHER = ToolSpec(
    name="weather",
    description="The weather of a city.",
    parameters_json='{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest_asyncio.fixture
async def provider(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAiHttpProvider]:
    monkeypatch.setenv("BOX_KEY", server.token)
    capable = frozenset(("chat", "json_schema", "tools", "streaming_usage"))
    models = tuple(RemoteModel(name=f"scripted:{name}", capabilities=capable) for name in NAMES)
    remote = RemoteServer(
        name="box", address=server_address(f"{server.url}/v1"), api_key_env="BOX_KEY", models=models
    )
    provider = OpenAiHttpProvider(remote, SystemClock())
    yield provider
    await provider.close()


def asked(name: str, text: str = "hello", **changes: object) -> GenerateRequest:
    conversation = Conversation.of(UserMessage(text=text))
    values: dict[str, object] = {"conversation": conversation, "model": f"box/scripted:{name}", **changes}
    return GenerateRequest(**values)  # type: ignore[arg-type]


async def answered(provider: OpenAiHttpProvider, request: GenerateRequest) -> GenerateResult:
    answer = AnswerInProgress()
    async with aclosing(provider.stream(request)) as events:
        async for event in events:
            answer.add(event)
    return answer.result()


async def failed(provider: OpenAiHttpProvider, request: GenerateRequest) -> Failure:
    result = await answered(provider, request)
    assert isinstance(result, GenerateFailure), result
    return result.failure


async def test_text_thinking_and_tokens_arrive(provider: OpenAiHttpProvider) -> None:
    result = await answered(provider, asked("greet"))

    assert isinstance(result, GenerateSuccess)
    assert (result.message.text, result.message.reasoning) == ("Good morning to you.", "Be kind.")
    assert result.usage.input_tokens == await provider.count_tokens(asked("greet"))
    assert result.usage.output_tokens > 0
    assert result.usage.estimated_tokens == 0


async def test_several_calls_arrive_whole(provider: OpenAiHttpProvider) -> None:
    result = await answered(provider, asked("call", tools=(WEATHER,)))

    assert isinstance(result, GenerateSuccess)
    assert result.finish_reason == "tool_calls"
    cities = [json.loads(call.arguments_json)["city"] for call in result.message.tool_calls]
    assert cities == ["Paris", "Rome"]


async def test_an_answer_under_a_schema_arrives(provider: OpenAiHttpProvider) -> None:
    result = await answered(
        provider, asked("json", output=JsonSchemaFormat(schema_json='{"type": "object"}'))
    )

    assert isinstance(result, GenerateSuccess)
    assert json.loads(result.message.text) == {"name": "Emma", "year": 1815}


async def test_a_failure_in_the_middle_keeps_its_kind_and_the_text_before_it(
    provider: OpenAiHttpProvider,
) -> None:
    result = await answered(provider, asked("broken"))

    assert isinstance(result, GenerateFailure)
    assert result.failure.kind == "engine_crashed"
    assert result.partial.text == "half an "


async def test_a_prompt_that_is_too_long_arrives_with_both_counts(provider: OpenAiHttpProvider) -> None:
    failure = await failed(provider, asked("tiny", "word " * 40))

    assert failure.kind == "context_overflow"
    assert failure.details["context_window"] == 16
    assert failure.details["prompt_tokens"] == await provider.count_tokens(asked("tiny", "word " * 40))


async def test_a_model_that_it_does_not_list_is_found_by_name(provider: OpenAiHttpProvider) -> None:
    assert (await provider.capabilities("box/scripted:tiny")).context_window == 16


async def test_a_model_that_it_does_not_have_is_not_found(
    server: LiveServer, provider: OpenAiHttpProvider
) -> None:
    open_to_all = RemoteServer(name="box", address=server_address(server.url), api_key_env="BOX_KEY")
    asking = OpenAiHttpProvider(open_to_all, SystemClock())

    with pytest.raises(ModelNotFoundError):
        await asking.capabilities("box/no-such-model")
    await asking.close()


async def test_a_wrong_token_is_an_authentication_failure(
    provider: OpenAiHttpProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOX_KEY", "wrong-token")

    assert (await failed(provider, asked("greet"))).kind == "authentication"


async def test_an_open_turn_is_gone_on_with_by_another_appliance(provider: OpenAiHttpProvider) -> None:
    turns = (UserMessage(text="hello"), AssistantMessage(text="Good morning"))
    going_on = asked("greet", conversation=Conversation(turns, is_open=True))

    result = await answered(provider, going_on)

    assert isinstance(result, GenerateSuccess), result
    assert (result.message.text, result.message.reasoning) == (" to you.", "")
    assert result.usage.input_tokens == await provider.count_tokens(going_on)
