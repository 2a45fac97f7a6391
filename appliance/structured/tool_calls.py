"""Constrain and read tool calls: arguments satisfy the tool's schema, one call or several."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from appliance.core.errors import InvalidRequestError, MalformedOutputError, SchemaRejectedError
from appliance.core.messages import ToolCall
from appliance.core.requests import JsonSchemaFormat, NamedTool, TextFormat, ToolChoice, ToolSpec
from appliance.structured.admission import Admitted, admit
from appliance.structured.call_check import CallCheck
from appliance.structured.grammar import grammar_error
from appliance.structured.json_text import JsonValue, dump_json, scan_json
from appliance.structured.report import StructuredLimits
from appliance.structured.validator import validator_of

_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMarkers:
    """The texts around one call, as the model was taught to write them."""

    opening: str = "<tool_call>\n"
    closing: str = "\n</tool_call>"
    between: str = "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a model wrote: text outside the calls, and the calls."""

    text: str
    calls: tuple[ToolCall, ...]


def admit_tool_calls(
    tools: Sequence[ToolSpec],
    choice: ToolChoice,
    *,
    markers: CallMarkers | None = None,
    allows_several: bool = True,
    limits: StructuredLimits | None = None,
) -> Admitted | None:
    """Return the format of an answer that may or must call tools; `None` when none may be called.

    `auto` lets text stand alone or before calls; `required` and a named tool allow nothing but calls.

    Raises:
        SchemaRejectedError: the parameters of a tool cannot be enforced.
        InvalidRequestError: the tools or the choice contradict each other.
    """
    if choice == "none" or (not tools and choice == "auto"):
        return None
    chosen = _chosen(tools, choice)
    used = markers or CallMarkers()
    calls = admit(JsonSchemaFormat(schema_json=dump_json(_calls_schema(chosen)), in_prompt=False), limits)
    grammar = _wrap(calls.grammar, used, choice == "auto", allows_several)
    if error := grammar_error(grammar):
        raise SchemaRejectedError(f"the tools cannot be enforced together: {error.splitlines()[0][:200]}")
    return Admitted(
        format=TextFormat(),
        grammar=grammar,
        reports=calls.reports,
        examples=calls.examples,
        names_may_repeat=calls.names_may_repeat,
        calls=CallCheck(
            opening=used.opening,
            closing=used.closing,
            parameters=tuple((tool.name, tool.parameters_json or "{}") for tool in chosen),
        ),
    )


def parse_tool_calls(
    text: str,
    tools: Sequence[ToolSpec],
    new_call_id: Callable[[], str],
    *,
    markers: CallMarkers | None = None,
) -> ToolOutput:
    """Read the calls of an answer and check each one's arguments exactly.

    Raises:
        MalformedOutputError: a call is no JSON, names no tool, or its arguments are not valid.
    """
    used = markers or CallMarkers()
    pattern = re.escape(used.opening) + "(.*?)" + (re.escape(used.closing) if used.closing else r"\Z")
    calls = tuple(
        _read_call(body, tools, new_call_id(), text) for body in re.findall(pattern, text, re.DOTALL)
    )
    return ToolOutput(text=re.sub(pattern, "", text, flags=re.DOTALL).strip(), calls=calls)


def tools_prompt(tools: Sequence[ToolSpec], markers: CallMarkers | None = None) -> str:
    """Return the sentences that tell a model which tools there are and how to call them."""
    used = markers or CallMarkers()
    listed = "\n".join(
        dump_json(
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.parameters_json),
            }
        )
        for tool in tools
    )
    call = dump_json({"name": "tool name", "arguments": {}})
    return f"You may call these tools:\n{listed}\nTo call one, write:\n{used.opening}{call}{used.closing}"


def _chosen(tools: Sequence[ToolSpec], choice: ToolChoice) -> list[ToolSpec]:
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise InvalidRequestError("two tools have the same name", hint="rename one of them")
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidRequestError(f"{name!r} is no name for a tool", hint="use letters, digits, _ . : -")
    chosen = [tool for tool in tools if not isinstance(choice, NamedTool) or tool.name == choice.name]
    if not chosen:
        wanted = choice.name if isinstance(choice, NamedTool) else "any"
        raise InvalidRequestError(
            f"the tool choice asks for {wanted!r}, which is not among the tools",
            hint="offer it, or choose auto",
        )
    return chosen


def _calls_schema(tools: Sequence[ToolSpec]) -> JsonValue:
    return {"anyOf": [_call_schema(tool) for tool in tools]} if len(tools) > 1 else _call_schema(tools[0])


def _call_schema(tool: ToolSpec) -> JsonValue:
    try:
        parameters: JsonValue = json.loads(tool.parameters_json or "{}")
    except json.JSONDecodeError as error:
        raise SchemaRejectedError(
            f"the parameters of the tool {tool.name!r} are not JSON: {error.msg}", keyword="parameters"
        ) from None
    if not isinstance(parameters, dict):
        raise SchemaRejectedError(
            f"the parameters of the tool {tool.name!r} are no JSON Schema object", keyword="parameters"
        )
    # Its own identity keeps the references of each tool inside its parameters.
    inner = {key: value for key, value in parameters.items() if key not in ("$schema", "$id")}
    if not inner:
        inner = {"type": "object", "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": {"$id": f"urn:tool:{tool.name}", **inner}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _wrap(grammar: str, markers: CallMarkers, is_optional: bool, allows_several: bool) -> str:
    parsed: dict[str, list[dict[str, JsonValue]]] = json.loads(grammar)
    opening, closing = _terminal(markers.opening), _terminal(markers.closing)
    call = " ".join(part for part in (opening, "@call", closing) if part)
    more = f"({_terminal(markers.between)} call)*" if allows_several and markers.opening else ""
    lines = [f"start: call {more}", f"call: {call}"]
    if is_optional:
        if not markers.opening:
            raise InvalidRequestError("an optional call needs an opening marker", hint="choose required")
        repeated = "*" if allows_several else "?"
        lines = [
            f"start: call{repeated} tail",
            f"call: head @call {closing}".rstrip(),
            f"head[lazy]: TEXT {opening}",
            "tail: TEXT",
            f"TEXT: /(.|\\n)*/ & ~/(.|\\n)*({_any_of(markers)})(.|\\n)*/",
        ]
    named = {"name": "call", "json_schema": parsed["grammars"][0]["json_schema"]}
    return json.dumps({"grammars": [{"lark_grammar": "\n".join(lines)}, named]}, ensure_ascii=False)


def _terminal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def _any_of(markers: CallMarkers) -> str:
    """A pattern of the marks themselves, so that no text outside a call can hold one."""
    marks = [mark for mark in (markers.opening.strip(), markers.closing.strip()) if mark]
    return "|".join(re.escape(mark).replace("/", "\\/") for mark in marks)


def _read_call(body: str, tools: Sequence[ToolSpec], call_id: str, text: str) -> ToolCall:
    scan = scan_json(body)
    if not scan.is_complete:
        raise MalformedOutputError(f"a tool call is not JSON: {body[:100]!r}", raw_text=text)
    if scan.problems:
        raise MalformedOutputError(f"a tool call is not valid: {scan.problems[0].message}", raw_text=text)
    call = scan.value
    name = call.get("name") if isinstance(call, dict) else None
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None or not isinstance(call, dict):
        raise MalformedOutputError(f"a tool call names no tool: {body[:100]!r}", raw_text=text)
    arguments = call.get("arguments", {})
    problems = validator_of(tool.parameters_json or "{}").problems(arguments)
    if problems:
        raise MalformedOutputError(
            f"the arguments of {tool.name} are not valid: {problems[0].pointer or '/'}: {problems[0].message}",
            raw_text=text,
        )
    return ToolCall(call_id=call_id, name=tool.name, arguments_json=dump_json(arguments))
