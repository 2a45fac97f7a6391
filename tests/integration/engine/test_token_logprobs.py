"""The engine's log-probabilities are those of llama.cpp, whatever form an answer is held to."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from appliance.core.events import StreamEvent, TextDelta, ToolCallDelta
from appliance.core.logprobs import TokenLogprob
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, RegexFormat, ToolSpec
from appliance.engine.client import Engine
from tests.engine_calls import ask, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEA = "Write one sentence about the sea, with an emoji."


async def events_of(engine: Engine, request: GenerateRequest) -> list[StreamEvent]:
    return [event async for event in engine.stream(request)]


def logprobs_of(events: list[StreamEvent]) -> list[TokenLogprob]:
    return [each for event in events if isinstance(event, TextDelta) for each in event.logprobs]


def bytes_of(logprobs: list[TokenLogprob]) -> bytes:
    return b"".join(bytes(each.token_bytes) for each in logprobs)


def greedy_by_llama_cpp(
    weights: Path, prompt: list[int], count: int
) -> list[tuple[bytes, float, list[float]]]:
    """Tokens of a greedy answer with their log-probability and the three highest, by the library's own class."""
    with_logits = llama_cpp.Llama(
        str(weights),
        n_ctx=512,
        n_threads=1,
        n_batch=512,
        logits_all=True,
        verbose=False,
        n_gpu_layers=0,
        flash_attn=True,
    )
    try:
        with_logits.eval(prompt)
        found = []
        for _ in range(count):
            logits = np.array(with_logits.scores[with_logits.n_tokens - 1], np.float64)
            logprobs = logits - np.logaddexp.reduce(logits)
            token = int(logits.argmax())
            top = sorted(logprobs, reverse=True)[:3]
            found.append(
                (with_logits.detokenize([token]), float(logprobs[token]), [float(each) for each in top])
            )
            with_logits.eval([token])
        return found
    finally:
        with_logits.close()


async def test_they_are_those_of_the_library(starter_engine: Engine, starter_weights: Path) -> None:
    # An owner of its own: nothing of another test's prompt is reused, which may have been computed in larger passes.
    request = ask(SEA, owner="library", top_logprobs=3, max_tokens=12)
    prompt = await starter_engine.prompt_tokens(request)

    logprobs = logprobs_of(await events_of(starter_engine, request))
    expected = await asyncio.to_thread(greedy_by_llama_cpp, starter_weights, prompt, len(logprobs))

    assert len(logprobs) == 12
    assert [bytes(each.token_bytes) for each in logprobs] == [data for data, _, _ in expected]
    assert [each.logprob for each in logprobs] == pytest.approx([one for _, one, _ in expected], abs=0.02)
    told = [[one.logprob for one in each.top] for each in logprobs]
    assert np.allclose(told, [top for _, _, top in expected], atol=0.02)


async def test_sampling_changes_what_is_written_but_not_what_the_model_thinks(starter_engine: Engine) -> None:
    plain = logprobs_of(await events_of(starter_engine, ask(SEA, top_logprobs=5, max_tokens=1)))
    (zebra, *_) = await starter_engine.tokenize("zebra")
    bias = {zebra: 100.0}
    rude = ask(SEA, top_logprobs=5, max_tokens=1, logit_bias=bias, repeat_penalty=1.5, presence_penalty=1.0)

    bent = logprobs_of(await events_of(starter_engine, rude))

    # The second time the prompt's first tokens are kept: another pass, which rounds differently.
    assert bent[0].top[0].token == plain[0].top[0].token
    assert bent[0].top[0].logprob == pytest.approx(plain[0].top[0].logprob, abs=0.3)
    assert bent[0].token not in [each.token for each in bent[0].top]
    assert bent[0].token != plain[0].token
    assert bent[0].logprob < plain[0].logprob


async def test_drawn_tokens_add_up_to_the_text(starter_engine: Engine) -> None:
    events = await events_of(starter_engine, ask(SEA, temperature=1.4, seed=3, top_logprobs=0, max_tokens=40))

    logprobs = logprobs_of(events)
    assert bytes_of(logprobs).decode() == text_of(events)
    assert all(each.logprob <= 0 and each.top == () for each in logprobs)


async def test_none_are_given_unless_asked_for(starter_engine: Engine) -> None:
    assert logprobs_of(await events_of(starter_engine, ask(SEA))) == []


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_json_has_them_for_every_token_and_none_where_nothing_was_open(
    starter_engine: Engine, temperature: float
) -> None:
    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["happy", "sad"]}, "why": {"type": "string", "maxLength": 20}},
        "required": ["mood", "why"],
        "additionalProperties": False,
    }
    request = replace(
        ask("How is the sea?", temperature=temperature, seed=1, top_logprobs=4, max_tokens=60),
        output=JsonSchemaFormat(schema_json=json.dumps(schema)),
    )

    events = await events_of(starter_engine, request)
    logprobs = logprobs_of(events)

    assert bytes_of(logprobs).decode() == text_of(events)
    settled = [each for each in logprobs if not each.top]
    assert settled
    assert len(settled) < len(logprobs)
    assert {each.logprob for each in settled} == {0.0}
    assert all(sum(math.exp(one.logprob) for one in each.top) <= 1 + 1e-6 for each in logprobs)
    assert all(each.logprob < 0 for each in logprobs if each.top)


async def test_characters_of_several_tokens_keep_theirs(starter_engine: Engine) -> None:
    request = replace(
        ask("Write.", top_logprobs=0, max_tokens=40, temperature=1.0, seed=2),
        output=RegexFormat(pattern="日本🙂[é🙃]{3}"),
    )

    events = await events_of(starter_engine, request)

    assert bytes_of(logprobs_of(events)).decode() == text_of(events)
    assert text_of(events).startswith("日本🙂")


async def test_calls_have_none_and_text_before_a_call_has(starter_engine: Engine) -> None:
    tool = ToolSpec(
        name="now",
        description="The time.",
        parameters_json='{"type": "object", "properties": {}, "additionalProperties": false}',
    )
    asked = ask("What time is it?", top_logprobs=0, max_tokens=40)

    called = await events_of(starter_engine, replace(asked, tools=(tool,), tool_choice="required"))
    told = await events_of(starter_engine, replace(asked, tools=(tool,), tool_choice="none"))

    assert any(isinstance(event, ToolCallDelta) for event in called)
    assert logprobs_of(called) == []
    assert bytes_of(logprobs_of(told)).decode() == text_of(told)
