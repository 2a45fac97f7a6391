"""The official `openai` client works unchanged: answers, streams, tools, schemas, errors."""

from __future__ import annotations

import json
import math

import openai
import pytest
from pydantic import BaseModel

from tests.conftest import EMBEDDER, stored_model
from tests.live_server import LiveServer

ASKED = [{"role": "user", "content": "hello"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class Book(BaseModel):
    """What the client makes of a JSON answer."""

    name: str
    year: int


def test_a_chat_completion_is_whole(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="scripted:greet", messages=ASKED)

    choice = answer.choices[0]
    assert choice.message.content == "Good morning to you."
    assert choice.finish_reason == "stop"
    assert choice.message.model_extra == {"reasoning_content": "Be kind."}
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.id.startswith("chatcmpl-")
    receipt = (answer.model_extra or {})["appliance"]
    assert receipt["provider"] == "scripted"
    assert receipt["timings"][0]["total_s"] >= receipt["timings"][0]["ttft_s"]


def test_a_stream_says_the_same_and_ends_with_usage(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="scripted:greet", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Good morning to you."
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_async_client_streams_as_well(server: LiveServer) -> None:
    import asyncio

    async def texts() -> str:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token) as client:
            stream = await client.chat.completions.create(model="scripted:greet", messages=ASKED, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(texts()) == "Good morning to you."


def test_several_answers_keep_their_numbers(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="scripted:greet", messages=ASKED, n=3, seed=7)
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(model="scripted:greet", messages=ASKED, n=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""

    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert texts == ["Good morning to you."] * 3


def test_tool_calls_come_back_and_their_results_are_answered(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(model="scripted:call", messages=ASKED, tools=[WEATHER])
    calls = first.choices[0].message.tool_calls or []
    results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls]
    second = client.chat.completions.create(
        model="scripted:call", messages=[*ASKED, first.choices[0].message, *results], tools=[WEATHER]
    )

    assert first.choices[0].finish_reason == "tool_calls"
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Paris", "Rome"]
    assert second.choices[0].message.content == "It rains."


def test_streamed_tool_calls_join_to_the_same_calls(client: openai.OpenAI) -> None:
    arguments: dict[int, str] = {}
    names: dict[int, str | None] = {}
    stream = client.chat.completions.create(
        model="scripted:call", messages=ASKED, tools=[WEATHER], stream=True
    )
    for chunk in stream:
        for call in chunk.choices[0].delta.tool_calls or []:
            if call.id:
                assert call.index not in names
                names[call.index] = call.function and call.function.name
            arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")

    assert names == {0: "weather", 1: "weather"}
    assert [json.loads(arguments[index])["city"] for index in (0, 1)] == ["Paris", "Rome"]


def test_two_calls_where_one_is_allowed_are_no_answer(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(
            model="scripted:call", messages=ASKED, tools=[WEATHER], parallel_tool_calls=False
        )

    assert caught.value.status_code == 502
    assert caught.value.code == "malformed_output"


def test_a_schema_of_pydantic_is_parsed_by_the_client(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(model="scripted:json", messages=ASKED, response_format=Book)

    assert answer.choices[0].message.parsed == Book(name="Emma", year=1815)


def test_a_json_object_is_any_object_and_a_text_is_none(client: openai.OpenAI) -> None:
    form = {"type": "json_object"}
    answer = client.chat.completions.create(model="scripted:json", messages=ASKED, response_format=form)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="scripted:greet", messages=ASKED, response_format=form)

    assert json.loads(answer.choices[0].message.content or "") == {"name": "Emma", "year": 1815}
    assert caught.value.code == "malformed_output"


def test_a_schema_that_cannot_be_held_is_refused_with_its_place(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "https://elsewhere.example/a"}}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="scripted:json",
            messages=ASKED,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        )

    assert caught.value.param == "/properties/a/$ref"


def test_too_long_a_prompt_says_both_counts(client: openai.OpenAI) -> None:
    for is_streamed in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(
                model="scripted:tiny",
                messages=[{"role": "user", "content": "word " * 40}],
                stream=is_streamed,
            )
        assert caught.value.code == "context_length_exceeded"
        details = caught.value.body["appliance"]["details"]  # type: ignore[index]
        assert details["prompt_tokens"] > details["context_window"] == 16
        assert str(details["prompt_tokens"]) in caught.value.message


def test_a_failure_after_the_first_word_is_an_error_in_the_stream(client: openai.OpenAI) -> None:
    texts: list[str | None] = []
    stream = client.chat.completions.create(model="scripted:broken", messages=ASKED, stream=True)
    with pytest.raises(openai.APIError, match="the worker died"):
        texts.extend(chunk.choices[0].delta.content for chunk in stream)

    assert "".join(text or "" for text in texts) == "half an "


def test_errors_are_of_the_classes_that_programs_catch(client: openai.OpenAI) -> None:
    stranger = client.with_options(api_key="wrong")
    with pytest.raises(openai.AuthenticationError) as unknown:
        stranger.models.list()
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="no-such-model", messages=ASKED)
    with pytest.raises(openai.BadRequestError) as unserved:
        client.chat.completions.create(model="scripted:greet", messages=ASKED, logprobs=True)
    with pytest.raises(openai.BadRequestError) as extra:
        client.chat.completions.create(model="scripted:greet", messages=ASKED, extra_body={"mirostat": 2})

    assert unknown.value.code == "invalid_api_key"
    assert missing.value.code == "model_not_found"
    assert unserved.value.param == "logprobs"
    assert (extra.value.code, extra.value.param) == ("unknown_parameter", "mirostat")


def test_fields_that_are_not_used_are_listed(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="scripted:greet", messages=ASKED, user="u-1", metadata={"a": "b"}
    )

    assert raw.headers["x-appliance-ignored"] == "user, metadata"
    assert (raw.parse().model_extra or {})["appliance"]["ignored"] == ["user", "metadata"]


def test_the_older_completions_answer_and_stream(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="scripted:greet", prompt=["hello", "again"])
    chunks = list(client.completions.create(model="scripted:greet", prompt="hello", stream=True))

    assert [choice.text for choice in whole.choices] == ["Good morning to you."] * 2
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Good morning to you."


def test_a_response_is_an_item_of_text(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="scripted:greet", input="hello", instructions="Be kind.")

    assert answer.output_text == "Good morning to you."
    assert answer.status == "completed"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


def test_a_streamed_response_tells_each_step_once_and_in_order(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="scripted:greet", input="hello", stream=True))

    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    done = [event.text for event in events if event.type == "response.output_text.done"]
    assert ["".join(deltas)] == done == ["Good morning to you."]


def test_a_response_calls_tools_and_reads_their_results(client: openai.OpenAI) -> None:
    tool = {"type": "function", **WEATHER["function"], "strict": True}
    first = client.responses.create(model="scripted:call", input="hello", tools=[tool])
    calls = [item for item in first.output if item.type == "function_call"]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    asked = [{"role": "user", "content": "hello"}, *first.output, *results]
    second = client.responses.create(model="scripted:call", input=asked, tools=[tool])

    assert [json.loads(call.arguments)["city"] for call in calls] == ["Paris", "Rome"]
    assert second.output_text == "It rains."


def test_a_response_is_parsed_to_a_type(client: openai.OpenAI) -> None:
    answer = client.responses.parse(model="scripted:json", input="which book?", text_format=Book)

    assert answer.output_parsed == Book(name="Emma", year=1815)


def test_the_streaming_helpers_of_the_client_collect_and_parse(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="scripted:json", messages=ASKED, response_format=Book) as chat:
        chat.until_done()
        parsed = chat.get_final_completion().choices[0].message.parsed
    with client.responses.stream(model="scripted:json", input="which book?", text_format=Book) as response:
        response.until_done()
        output = response.get_final_response().output_parsed

    assert parsed == output == Book(name="Emma", year=1815)


def test_a_response_that_must_be_kept_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="scripted:greet", input="hello", previous_response_id="resp_1")

    assert caught.value.param == "previous_response_id"


def test_models_are_listed_and_shown(client: openai.OpenAI) -> None:
    stored_model(EMBEDDER)
    names = [model.id for model in client.models.list()]

    assert EMBEDDER in names
    assert client.models.retrieve(EMBEDDER).id == EMBEDDER
    assert client.models.retrieve("scripted:greet").id == "scripted:greet"


def test_embeddings_are_unit_vectors_in_both_encodings(client: openai.OpenAI) -> None:
    stored_model(EMBEDDER)
    packed = client.embeddings.create(model=EMBEDDER, input=["a cat", "a dog"])
    plain = client.embeddings.create(model=EMBEDDER, input=["a cat", "a dog"], encoding_format="float")

    assert len(packed.data) == 2
    for one, other in zip(packed.data, plain.data, strict=True):
        assert math.isclose(sum(value * value for value in one.embedding), 1.0, rel_tol=1e-4)
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
    assert packed.usage.prompt_tokens > 0


def test_embeddings_refuse_what_they_would_have_to_cut(client: openai.OpenAI) -> None:
    stored_model(EMBEDDER)
    with pytest.raises(openai.BadRequestError, match="tokens"):
        client.embeddings.create(model=EMBEDDER, input="word " * 2_000)
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model=EMBEDDER, input="word", dimensions=7)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="scripted:greet", input="word")
