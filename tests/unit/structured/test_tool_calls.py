"""Tool calls: what may be written under each choice, and what is read from it."""

from __future__ import annotations

import json
from itertools import count

import pytest

from appliance.core.errors import InvalidRequestError, MalformedOutputError, SchemaRejectedError
from appliance.core.requests import NamedTool, ToolChoice, ToolSpec
from appliance.structured.tool_calls import CallMarkers, admit_tool_calls, parse_tool_calls, tools_prompt
from tests.unit.structured.test_exactness import grammar_accepts

WEATHER = ToolSpec(
    name="weather",
    description="The weather of a city",
    parameters_json=json.dumps(
        {
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/city"}},
            "required": ["city"],
            "$defs": {"city": {"type": "string"}},
        }
    ),
)
CLOCK = ToolSpec(
    name="clock",
    description="The time in a zone",
    parameters_json='{"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}',
)
STOP = ToolSpec(name="stop", description="", parameters_json="{}")
TOOLS = (WEATHER, CLOCK, STOP)


def call(name: str, arguments: object) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


OSLO, UTC = call("weather", {"city": "Oslo"}), call("clock", {"zone": "UTC"})


@pytest.mark.parametrize(
    "choice, text, is_accepted",
    [
        ("required", OSLO, True),
        ("required", f"{OSLO}\n{UTC}", True),
        ("required", call("stop", {}), True),
        ("required", "Hello", False),
        ("required", call("clock", {"zone": "moon"}), False),
        ("required", call("clock", {"zone": "UTC", "more": 1}), False),
        ("required", call("nothing", {}), False),
        ("auto", "Hello, a < b", True),
        ("auto", OSLO, True),
        ("auto", f"I look it up. {OSLO}", True),
        ("auto", f"I look it up. {call('clock', {'zone': 'moon'})}", False),
        (NamedTool(name="clock"), UTC, True),
        (NamedTool(name="clock"), OSLO, False),
    ],
)
def test_each_choice_allows_what_it_says(choice: ToolChoice, text: str, is_accepted: bool) -> None:
    admitted = admit_tool_calls(TOOLS, choice)
    assert admitted is not None
    assert grammar_accepts(admitted, text) is is_accepted


def test_one_call_only_when_several_are_not_allowed() -> None:
    admitted = admit_tool_calls(TOOLS, "required", allows_several=False)
    assert admitted is not None
    assert grammar_accepts(admitted, OSLO)
    assert not grammar_accepts(admitted, f"{OSLO}\n{UTC}")


def test_markers_are_the_models_own() -> None:
    markers = CallMarkers(opening="", closing="", between="")
    admitted = admit_tool_calls([CLOCK], "required", markers=markers)
    assert admitted is not None
    assert grammar_accepts(admitted, '{"name": "clock", "arguments": {"zone": "CET"}}')


def test_no_tool_may_be_called_when_none_is_chosen() -> None:
    assert admit_tool_calls(TOOLS, "none") is None
    assert admit_tool_calls((), "auto") is None


def test_calls_are_read_with_the_text_around_them() -> None:
    ids = count(1)
    output = parse_tool_calls(f"Let me see. {OSLO}\n{UTC}", TOOLS, lambda: f"call-{next(ids)}")
    assert output.text == "Let me see."
    assert [(one.call_id, one.name, json.loads(one.arguments_json)) for one in output.calls] == [
        ("call-1", "weather", {"city": "Oslo"}),
        ("call-2", "clock", {"zone": "UTC"}),
    ]


@pytest.mark.parametrize(
    "text", ["<tool_call>\n{\n</tool_call>", call("nothing", {}), call("clock", {"zone": "moon"})]
)
def test_a_call_that_is_not_valid_is_a_typed_failure_with_the_text(text: str) -> None:
    with pytest.raises(MalformedOutputError) as caught:
        parse_tool_calls(text, TOOLS, lambda: "call-1")
    assert caught.value.raw_text == text


@pytest.mark.parametrize(
    "tools, choice",
    [
        (TOOLS, NamedTool(name="absent")),
        ((CLOCK, CLOCK), "auto"),
        ((ToolSpec(name="two words", description="", parameters_json="{}"),), "auto"),
        ((), "required"),
    ],
)
def test_tools_and_choice_that_contradict_are_refused(
    tools: tuple[ToolSpec, ...], choice: ToolChoice
) -> None:
    with pytest.raises(InvalidRequestError):
        admit_tool_calls(tools, choice)


def test_parameters_that_are_no_schema_are_refused() -> None:
    with pytest.raises(SchemaRejectedError):
        admit_tool_calls([ToolSpec(name="x", description="", parameters_json="[]")], "auto")


def test_the_prompt_lists_every_tool_and_how_to_call_it() -> None:
    prompt = tools_prompt(TOOLS)
    assert all(tool.name in prompt for tool in TOOLS)
    assert "<tool_call>" in prompt
