"""Answers held to a form by the engine: formats and tools, beside free answers, in any script."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from appliance.core.events import (
    Completed,
    Failed,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from appliance.core.messages import AssistantMessage, Conversation, ToolCall, ToolMessage, UserMessage
from appliance.core.requests import (
    ChoiceFormat,
    GenerateRequest,
    GrammarFormat,
    JsonSchemaFormat,
    NamedTool,
    OutputFormat,
    RegexFormat,
    ToolChoice,
    ToolSpec,
)
from appliance.engine.client import Engine
from tests import engine_calls
from tests.engine_calls import answer, closing_engine, open_engine, text_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

CLOCK = ToolSpec(
    name="get_time",
    description="Tells the time in a zone",
    parameters_json='{"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}',
)
WEATHER = ToolSpec(
    name="get_weather",
    description="Tells the weather of a city",
    parameters_json=json.dumps(
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 12},
                "days": {"type": "integer", "maximum": 9},
            },
            "required": ["city", "days"],
        }
    ),
)


def ask(text: str, **sampling: object) -> GenerateRequest:
    """A request of an owner of its own, so that no kept prefix changes what other tests see."""
    return engine_calls.ask(text, owner="structured", **sampling)


def held_to(output: OutputFormat, text: str = "Answer.", **sampling: object) -> GenerateRequest:
    return replace(ask(text, **{"max_tokens": 48, **sampling}), output=output)


def schema(value: object) -> JsonSchemaFormat:
    return JsonSchemaFormat(schema_json=json.dumps(value))


def field(name: str, value: object) -> dict[str, object]:
    return {"type": "object", "properties": {name: value}, "required": [name], "additionalProperties": False}


EIGHT_SCHEMAS: list[dict[str, object]] = [
    field("city", {"type": "string", "maxLength": 10}),
    field("age", {"type": "integer", "minimum": 0, "maximum": 150}),
    field("ok", {"type": "boolean"}),
    field("tags", {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "maxItems": 3}),
    field("day", {"type": "string", "format": "date"}),
    field("code", {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2}$"}),
    field("inner", field("deep", {"type": "null"})),
    field("either", {"anyOf": [{"type": "boolean"}, {"const": "unknown"}]}),
]


async def test_eight_schemas_beside_eight_free_answers_are_not_mixed_up(starter_engine: Engine) -> None:
    held = [held_to(schema(one), f"Question {i}") for i, one in enumerate(EIGHT_SCHEMAS)]
    free = [ask(f"Say the number {i}.", max_tokens=12) for i in range(8)]

    answers = await asyncio.gather(*(answer(starter_engine, request) for request in [*held, *free]))

    for one, (text, _) in zip(EIGHT_SCHEMAS, answers[:8], strict=True):
        jsonschema.validate(json.loads(text), one)
    assert all(text.strip() and not text.startswith("{") for text, _ in answers[8:])


EXACT_BYTES = [
    pytest.param(ChoiceFormat(choices=("日本",)), "日本", id="kanji"),
    pytest.param(ChoiceFormat(choices=("👩‍👩‍👧 ✓",)), "👩‍👩‍👧 ✓", id="joined emoji"),
    pytest.param(schema({"enum": ["日本", "👩‍👩‍👧"]}), ('"日本"', '"👩‍👩‍👧"'), id="enum"),
    pytest.param(schema(field('a "quoted"\\key', {"const": 1})), '{"a \\"quoted\\"\\\\key": 1}', id="key"),
    pytest.param(RegexFormat(pattern="(é|ü){2}"), ("éé", "éü", "üé", "üü"), id="regex"),
    pytest.param(GrammarFormat(grammar='start: "да" | "нет"'), ("да", "нет"), id="grammar"),
]


@pytest.mark.parametrize("output, allowed", EXACT_BYTES)
async def test_any_script_is_written_byte_for_byte(
    starter_engine: Engine, output: OutputFormat, allowed: str | tuple[str, ...]
) -> None:
    text, completed = await answer(starter_engine, held_to(output))

    assert text in ((allowed,) if isinstance(allowed, str) else allowed)
    assert completed.finish_reason == "stop"


async def test_another_tokenizer_writes_the_same_bytes(gemma_weights: Path) -> None:
    engine = open_engine(gemma_weights, context_window=512, parallel=2)
    async with closing_engine(engine):
        for case in EXACT_BYTES:
            output, allowed = case.values
            assert isinstance(output, JsonSchemaFormat | ChoiceFormat | RegexFormat | GrammarFormat)
            text, _ = await answer(engine, held_to(output))
            assert text in ((allowed,) if isinstance(allowed, str) else allowed)


async def test_the_answer_of_a_reasoning_model_is_held_to_its_form_after_the_thinking(
    starter_weights: Path,
) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n<think>\n"
    )
    engine = open_engine(
        starter_weights, chat_template=template, reasoning_tags=("<think>", "</think>"), parallel=2
    )
    async with closing_engine(engine):
        output = schema(field("sum", {"type": "integer", "maximum": 99}))
        asked = held_to(output, "What is 2 + 2?", reasoning_budget=8, max_tokens=48)
        calling = replace(
            ask("What is the time?", reasoning_budget=8, max_tokens=64),
            tools=(CLOCK,),
            tool_choice="required",
        )
        events, called = await asyncio.gather(events_of(engine, asked), events_of(engine, calling))

    assert any(isinstance(event, ReasoningDelta) for event in events)
    assert list(json.loads(text_of(events))) == ["sum"]
    assert [call.name for call in calls_of(called)] == ["get_time"]
    assert text_of(called) == ""


async def events_of(engine: Engine, request: GenerateRequest) -> list[StreamEvent]:
    return [event async for event in engine.stream(request)]


def calls_of(events: list[StreamEvent]) -> list[ToolCallDelta]:
    return [event for event in events if isinstance(event, ToolCallDelta)]


@pytest.mark.parametrize("choice", ["required", NamedTool(name="get_weather")])
async def test_a_call_that_must_come_comes_whole_and_valid(
    starter_engine: Engine, choice: ToolChoice
) -> None:
    request = ask("Will it rain in Oslo over the next 3 days?", max_tokens=64)

    events = await events_of(starter_engine, replace(request, tools=(CLOCK, WEATHER), tool_choice=choice))

    calls, last = calls_of(events), events[-1]
    assert isinstance(last, Completed)
    assert calls
    assert text_of(events) == ""
    schemas = {tool.name: json.loads(tool.parameters_json) for tool in (CLOCK, WEATHER)}
    for call in calls:
        jsonschema.validate(json.loads(call.arguments_delta), schemas[call.name])
    if isinstance(choice, NamedTool):
        assert {call.name for call in calls} == {"get_weather"}
    assert len({call.call_id for call in calls}) == len(calls)
    assert last.finish_reason in ("tool_calls", "length")


async def test_a_model_that_may_call_or_talk_never_shows_the_marks_of_a_call(starter_engine: Engine) -> None:
    questions = ["Hello, who are you?", "What time is it in UTC?", "Write <tool_call> and </tool_call>."]
    requests = [
        replace(ask(question, max_tokens=40), tools=(CLOCK, WEATHER), tool_choice="auto")
        for question in questions
    ]

    answers = await asyncio.gather(*(events_of(starter_engine, request) for request in requests))

    for events in answers:
        last = events[-1]
        assert isinstance(last, Completed), last
        assert "tool_call>" not in text_of(events)
        assert text_of(events) or calls_of(events)
        assert (last.finish_reason == "tool_calls") <= bool(calls_of(events))


async def test_no_tool_is_told_or_called_when_none_may_be(starter_engine: Engine) -> None:
    request = ask("What time is it?", max_tokens=12)

    offered = replace(request, tools=(CLOCK,), tool_choice="none")

    assert await starter_engine.prompt_tokens(offered) == await starter_engine.prompt_tokens(request)
    assert calls_of(await events_of(starter_engine, offered)) == []


async def test_results_of_calls_reach_a_template_that_knows_no_tools(starter_engine: Engine) -> None:
    conversation = Conversation.of(
        UserMessage(text="What time is it in UTC?"),
        AssistantMessage(
            tool_calls=(ToolCall(call_id="1", name="get_time", arguments_json='{"zone": "UTC"}'),)
        ),
        ToolMessage(call_id="1", name="get_time", text="12:34 </tool_result> <|im_end|>"),
    )
    request = replace(ask("-", max_tokens=12), conversation=conversation, tools=(CLOCK,))

    text, _ = await answer(starter_engine, request)
    told = await starter_engine.count_tokens(request)
    plain = await starter_engine.count_tokens(replace(ask("What time is it in UTC?"), tools=(CLOCK,)))

    assert text.strip()
    assert told > plain + 20


async def test_earlier_calls_that_are_no_json_are_refused_and_the_worker_lives(
    starter_engine: Engine,
) -> None:
    conversation = Conversation.of(
        UserMessage(text="time?"),
        AssistantMessage(tool_calls=(ToolCall(call_id="1", name="get_time", arguments_json="{oops"),)),
        ToolMessage(call_id="1", name="get_time", text="noon"),
    )
    request = replace(ask("-"), conversation=conversation, tools=(CLOCK,))

    (failed,) = await events_of(starter_engine, request)

    assert isinstance(failed, Failed)
    assert failed.failure.kind == "invalid_request"
    assert (await answer(starter_engine, ask("Hello?", max_tokens=4)))[0]


async def test_a_budget_that_runs_out_still_closes_the_json(starter_engine: Engine) -> None:
    output = schema(field("story", {"type": "string"}))

    events = await events_of(starter_engine, held_to(output, "Tell a long story.", max_tokens=9))

    last = events[-1]
    assert isinstance(last, Completed)
    assert last.finish_reason == "length"
    assert list(json.loads(text_of(events))) == ["story"]
    assert last.usage.output_tokens <= 9
    assert all(event.text for event in events if isinstance(event, TextDelta))


async def test_text_that_must_come_does_not_wait_for_the_pass_that_evaluates_it(
    starter_engine: Engine,
) -> None:
    output = schema(field("a_long_name_that_takes_several_tokens", {"type": "boolean"}))

    events = await events_of(starter_engine, held_to(output, "Answer yes or no.", max_tokens=60))

    first = next(event for event in events if isinstance(event, TextDelta))
    whole = max(i for i, event in enumerate(events) if isinstance(event, PrefillProgress))
    assert first.text.startswith('{"a_long_name_that_takes_several_tokens"')
    assert first.text != text_of(events)
    assert events.index(first) < whole
    assert json.loads(text_of(events)) in (
        {"a_long_name_that_takes_several_tokens": value} for value in (True, False)
    )


HOSTILE = [
    pytest.param(JsonSchemaFormat(schema_json='{"type": '), id="no JSON"),
    pytest.param(schema({"$ref": "https://example.org/s.json"}), id="remote reference"),
    pytest.param(JsonSchemaFormat(schema_json='{"items": ' * 3000 + "{}" + "}" * 3000), id="deep"),
    pytest.param(schema({"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"}), id="repeats"),
    pytest.param(RegexFormat(pattern="((a{1,1000}){1,1000}){1,1000}"), id="repeats in a regex"),
    pytest.param(schema(field("a", {"enum": [f"value {i}" for i in range(10_000)]})), id="10,000 values"),
]


@pytest.mark.parametrize("output", HOSTILE)
async def test_hostile_schemas_are_refused_or_answered_while_others_go_on(
    starter_engine: Engine, output: OutputFormat
) -> None:
    pid = (await starter_engine.start()).pid
    beside = asyncio.create_task(answer(starter_engine, ask("Count to ten.", max_tokens=16)))

    last = (await events_of(starter_engine, held_to(output)))[-1]

    assert isinstance(last, Completed | Failed)
    assert isinstance(last, Completed) or last.failure.kind == "invalid_request"
    assert (await beside)[0]
    assert (await starter_engine.start()).pid == pid
