"""The official client against real weights: streams, schemas, tools, seeds, biases, stops, cached tokens, cancel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

from tests.conftest import STARTER, stored_model
from tests.live_server import LiveServer, live_server

pytestmark = pytest.mark.slow

ASKED = [{"role": "user", "content": "List three colours."}]


class Mood(BaseModel):
    """A form that no answer can break."""

    mood: Literal["happy", "sad"]
    reason: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server of the starter model."""
    stored_model(STARTER)
    with live_server(tmp_path_factory.mktemp("server"), model=STARTER, context_window=512) as running:
        yield running


def test_the_stream_and_the_whole_answer_are_the_same_and_the_second_reuses_the_prompt(
    client: openai.OpenAI,
) -> None:
    asked = {"model": STARTER, "messages": ASKED, "temperature": 0, "max_tokens": 12}
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = chunks[-1].usage
    assert text == whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "length"
    assert usage is not None
    assert usage.completion_tokens == 12
    assert usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens_details.cached_tokens or 0) > 20


def test_a_schema_and_a_tool_are_held(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(
        model=STARTER, messages=ASKED, response_format=Mood, max_tokens=40, temperature=0
    )
    parameters = {
        "type": "object",
        "properties": {"unit": {"enum": ["celsius", "kelvin"]}},
        "required": ["unit"],
        "additionalProperties": False,
    }
    called = client.chat.completions.create(
        model=STARTER,
        messages=ASKED,
        tools=[{"type": "function", "function": {"name": "measure", "parameters": parameters}}],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=60,
        temperature=0,
    )

    calls = called.choices[0].message.tool_calls or []
    assert parsed.choices[0].message.parsed is not None
    assert parsed.choices[0].message.parsed.mood in ("happy", "sad")
    assert [call.function.name for call in calls] == ["measure"]
    assert json.loads(calls[0].function.arguments)["unit"] in ("celsius", "kelvin")


def test_a_seed_repeats_an_answer_and_several_answers_differ(client: openai.OpenAI) -> None:
    asked = {"model": STARTER, "messages": ASKED, "temperature": 1.5, "max_tokens": 12, "seed": 7}
    one = client.chat.completions.create(**asked)
    again = client.chat.completions.create(**asked)
    several = client.chat.completions.create(**asked, n=3)

    texts = [choice.message.content for choice in several.choices]
    assert one.choices[0].message.content == again.choices[0].message.content
    assert len(set(texts)) > 1


def test_a_bias_of_a_token_and_a_stop_string_decide(server: LiveServer, client: openai.OpenAI) -> None:
    with server.client() as plain:
        ids = plain.post("/tokenize", json={"content": " blue"}).json()["tokens"]
    biased = client.chat.completions.create(
        model=STARTER, messages=ASKED, max_tokens=3, temperature=0, logit_bias={str(ids[0]): 100}
    )
    stopped = client.chat.completions.create(
        model=STARTER, messages=ASKED, max_tokens=40, temperature=0, stop=["2"]
    )

    assert biased.choices[0].message.content == " blue" * 3
    assert stopped.choices[0].finish_reason == "stop"
    assert "2" not in (stopped.choices[0].message.content or "")


def test_too_long_a_prompt_is_refused_before_the_model_runs(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=STARTER, messages=[{"role": "user", "content": "word " * 600}], stream=True
        )

    details = caught.value.body["appliance"]["details"]  # type: ignore[index]
    assert caught.value.code == "context_length_exceeded"
    assert details["prompt_tokens"] > 600
    assert details["context_window"] == 512


def test_a_model_is_listed_with_the_window_that_requests_have(client: openai.OpenAI) -> None:
    listed = {model.id: model.model_extra or {} for model in client.models.list()}
    assert listed[STARTER]["context_window"] == 512


def test_a_client_that_leaves_frees_the_model_at_once(server: LiveServer, client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=STARTER, messages=ASKED, temperature=1.0, max_tokens=400, stream=True
    )
    next(iter(stream))
    stream.close()
    answer = client.chat.completions.create(model=STARTER, messages=ASKED, max_tokens=1, temperature=0)

    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1
    assert server.services.running.count == 0


def test_log_probabilities_come_with_the_text_whole_and_streamed(client: openai.OpenAI) -> None:
    asked = {"model": STARTER, "messages": ASKED, "temperature": 0, "max_tokens": 8, "logprobs": True}
    whole = client.chat.completions.create(**asked, top_logprobs=2).choices[0]
    chunks = list(client.chat.completions.create(**asked, top_logprobs=2, stream=True))

    assert whole.logprobs is not None
    content = whole.logprobs.content or []
    streamed = [
        each
        for chunk in chunks
        if chunk.choices and chunk.choices[0].logprobs
        for each in chunk.choices[0].logprobs.content or []
    ]
    assert "".join(each.token for each in content) == whole.message.content
    assert [each.token for each in streamed] == [each.token for each in content]
    assert all(bytes(each.bytes or []).decode() == each.token for each in content)
    assert all(
        each.top_logprobs[0].logprob == each.logprob > each.top_logprobs[1].logprob for each in content
    )


def test_each_of_several_answers_has_its_own_log_probabilities(client: openai.OpenAI) -> None:
    asked = {"model": STARTER, "messages": ASKED, "seed": 5, "max_tokens": 8, "stop": ["ue"]}
    scored = client.chat.completions.create(**asked, n=2, logprobs=True)
    plain = client.chat.completions.create(**asked)

    for choice in scored.choices:
        assert choice.logprobs is not None
        tokens = "".join(each.token for each in choice.logprobs.content or [])
        assert choice.message.content
        assert tokens.startswith(choice.message.content)
    assert scored.choices[0].logprobs != scored.choices[1].logprobs
    assert plain.choices[0].logprobs is None


def test_the_older_form_and_responses_have_them_too(client: openai.OpenAI) -> None:
    older = client.completions.create(
        model=STARTER, prompt="Say a word.", logprobs=2, max_tokens=6, temperature=0
    ).choices[0]
    response = client.responses.create(
        model=STARTER,
        input="Say a word.",
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        max_output_tokens=16,
        temperature=0,
    )

    assert older.logprobs is not None
    tokens, offsets = older.logprobs.tokens or [], older.logprobs.text_offset or []
    assert [older.text[offset:].startswith(token) for token, offset in zip(tokens, offsets, strict=True)] == [
        True
    ] * len(tokens)
    assert all(token in top for token, top in zip(tokens, older.logprobs.top_logprobs or [], strict=True))
    part = response.output[0].content[0]
    assert "".join(each.token for each in part.logprobs) == response.output_text
    assert (response.model_extra or {})["appliance"]["ignored"] == []


def test_alternatives_without_log_probabilities_are_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=STARTER, messages=ASKED, top_logprobs=2)

    assert caught.value.param == "top_logprobs"


def test_the_older_form_continues_its_prompt(client: openai.OpenAI) -> None:
    told = "Paris is the capital of France. Berlin is the capital of"

    answer = client.completions.create(model=STARTER, prompt=told, max_tokens=1, temperature=0)

    assert answer.choices[0].text == " Germany"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens < 15
