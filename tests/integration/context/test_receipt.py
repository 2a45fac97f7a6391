"""The receipt against the engine: what it says is what was prefilled, to the token."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from appliance.context.budget import ContextBudget
from appliance.context.builder import ContextBuilder
from appliance.context.counting import RequestCounter
from appliance.context.parts import Passage
from appliance.context.receipt import with_usage
from appliance.core.errors import ContextOverflowError
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, SamplingParams, TextFormat, ToolSpec
from appliance.engine.client import Engine
from tests.engine_calls import answer

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

WINDOW = 1024
TOOL = ToolSpec(
    name="lookup",
    description="Look a word up.",
    parameters_json='{"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}',
)
PIECES = (
    "the", "Kündigungsfrist", "备份", "<|im_end|>", "</documents>", "\n\n", "  ", "🙂", "e\u0301", "<passage>",
    "42.5", "def f(x):\n\treturn x", "<|im_start|>system", "\u200b", "word", "another", "of", "mercy", ".",
)  # fmt: skip


def words(chance: random.Random, most: int) -> str:
    return " ".join(chance.choice(PIECES) for _ in range(chance.randrange(most)))


def exchange(chance: random.Random, *, uses_tools: bool) -> list[Message]:
    question = UserMessage(text=words(chance, 30) or "?")
    if not uses_tools or chance.random() < 0.5:
        return [question, AssistantMessage(text=words(chance, 40))]
    call = ToolCall(call_id=str(chance.random()), name="lookup", arguments_json='{"word": "mercy"}')
    result = ToolMessage(call_id=call.call_id, name="lookup", text=words(chance, 40))
    return [question, AssistantMessage(tool_calls=(call,)), result, AssistantMessage(text="It says so.")]


def random_request(chance: random.Random) -> GenerateRequest:
    uses_tools = chance.random() < 0.5
    head: list[Message] = [SystemMessage(text=words(chance, 30))] if chance.random() < 0.6 else []
    turns = [one for _ in range(chance.randrange(6)) for one in exchange(chance, uses_tools=uses_tools)]
    request = GenerateRequest(
        conversation=Conversation((*head, *turns, UserMessage(text=words(chance, 40) or "why?"))),
        model="starter",
        sampling=SamplingParams(temperature=0.0, max_tokens=1),
        tools=(TOOL,) if uses_tools else (),
    )
    if not uses_tools and chance.random() < 0.3:
        return replace(
            request,
            output=JsonSchemaFormat(
                schema_json='{"type": "object", "properties": {"a": {"type": "integer"}}}'
            ),
            sampling=SamplingParams(temperature=0.0, max_tokens=24),
        )
    return request


@pytest.mark.parametrize("seed", range(12))
async def test_the_receipt_is_what_the_engine_prefilled(starter_engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    request = random_request(chance)
    # A small budget makes some of these cut turns and passages.
    budget = ContextBudget(context_window=WINDOW, reserved_tokens=chance.choice([64, 400, 600]))
    passages = [
        Passage(text=words(chance, 120), source="a.pdf", place=f"page {number}")
        for number in range(chance.randrange(6))
    ]
    facts = [words(chance, 12) for _ in range(chance.randrange(4))]
    builder = ContextBuilder(RequestCounter(starter_engine.count_tokens), budget)

    built = await builder.build(request, passages=passages, facts=facts, summary=words(chance, 60))
    _, completed = await answer(starter_engine, built.request)

    receipt = built.receipt
    assert receipt.total_tokens == completed.usage.input_tokens <= receipt.available_tokens
    assert receipt.template_tokens + sum(one.tokens for one in receipt.sections) == receipt.total_tokens
    assert receipt.section("question").tokens > 0


@pytest.mark.parametrize("seed", range(4))
async def test_the_receipt_of_a_prompt_that_ends_inside_the_answer_is_exact_too(
    starter_engine: Engine, seed: int
) -> None:
    chance = random.Random(seed)
    asked = replace(random_request(chance), output=TextFormat())
    so_far = AssistantMessage(text=words(chance, 40) or "Well ")
    whole = Conversation((*asked.conversation.messages, so_far), is_open=True)
    request = replace(asked, conversation=whole, sampling=SamplingParams(temperature=0.0, max_tokens=1))
    budget = ContextBudget(context_window=WINDOW, reserved_tokens=chance.choice([64, 400]))
    builder = ContextBuilder(RequestCounter(starter_engine.count_tokens), budget)

    built = await builder.build(request, facts=[words(chance, 12)], summary=words(chance, 60))
    _, completed = await answer(starter_engine, built.request)

    receipt = built.receipt
    assert receipt.total_tokens == completed.usage.input_tokens
    assert receipt.template_tokens + sum(one.tokens for one in receipt.sections) == receipt.total_tokens
    assert receipt.section("answer").tokens > 0


async def test_a_second_question_finds_the_conversation_in_the_cache_and_the_receipt_shows_it(
    starter_engine: Engine,
) -> None:
    builder = ContextBuilder(
        RequestCounter(starter_engine.count_tokens), ContextBudget(context_window=WINDOW, reserved_tokens=64)
    )
    passages = [
        Passage(text=f"Passage {number} speaks of mercy. " * 4, source="a.pdf") for number in range(3)
    ]
    system = SystemMessage(text="You read passages about mercy and grace and say what they mean.")
    first = GenerateRequest(
        conversation=Conversation.of(system, UserMessage(text="What do they speak of?")),
        model="starter",
        sampling=SamplingParams(temperature=0.0, max_tokens=4),
        owner="reader",
    )
    built = await builder.build(first, passages=passages)
    text, _ = await answer(starter_engine, built.request)
    followed = replace(
        first,
        conversation=Conversation(
            (
                *built.request.conversation.messages,
                AssistantMessage(text=text),
                UserMessage(text="And grace?"),
            )
        ),
    )
    again = await builder.build(followed)
    _, completed = await answer(starter_engine, again.request)

    receipt = with_usage(again.receipt, completed.usage)
    assert receipt.cached_tokens is not None
    assert receipt.cached_tokens >= built.receipt.total_tokens - 8


async def test_a_question_that_cannot_fit_is_refused_before_the_engine_with_exact_counts(
    starter_engine: Engine,
) -> None:
    request = GenerateRequest(
        conversation=Conversation.of(UserMessage(text="mercy " * 1100)),
        model="starter",
        sampling=SamplingParams(max_tokens=1),
    )
    budget = ContextBudget(context_window=WINDOW, reserved_tokens=64)

    with pytest.raises(ContextOverflowError) as caught:
        await ContextBuilder(RequestCounter(starter_engine.count_tokens), budget).build(request)

    assert caught.value.prompt_tokens == await starter_engine.count_tokens(request)
    assert "question" in caught.value.message
