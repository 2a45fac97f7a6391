"""Tool calls of a local model: told in the prompt where its template cannot, and taken out of what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from appliance.core.errors import InvalidRequestError
from appliance.core.events import TextDelta, ToolCallDelta
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import ToolSpec
from appliance.core.untrusted import delimited
from appliance.engine.detokenizer import overlap
from appliance.structured.tool_calls import CallMarkers, parse_tool_calls, tools_prompt

MARKERS = CallMarkers()


def shows_tools(template_source: str) -> bool:
    """Whether a chat template tells the model of tools and of calls in the form that is read here.

    A template that teaches another form is given no tools; they are told in the system message instead.
    """
    teaches_our_form = MARKERS.opening.strip() in template_source and "<function=" not in template_source
    return "tools" in template_source and teaches_our_form


def with_tools_told(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """Write tools, calls and their results as plain text, for a template that knows only texts of turns."""
    told: list[Message] = []
    for message in messages:
        _append_turn(told, _as_text(message))
    if not tools:
        return tuple(told)
    prompt = tools_prompt(tools, MARKERS)
    if isinstance(told[0], SystemMessage):
        return (SystemMessage(text=f"{told[0].text}\n\n{prompt}"), *told[1:])
    return (SystemMessage(text=prompt), *told)


def _as_text(message: Message) -> Message:
    if isinstance(message, ToolMessage):
        return UserMessage(text=f"Result of {message.name}:\n{delimited('tool_result', [message.text])}")
    if isinstance(message, AssistantMessage) and message.tool_calls:
        parts = [message.text, *(_call_text(call) for call in message.tool_calls)]
        text = MARKERS.between.join(part for part in parts if part)
        return AssistantMessage(text=text, reasoning=message.reasoning)
    return message


def _call_text(call: ToolCall) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'{MARKERS.opening}{{"name": {name}, "arguments": {call.arguments_json}}}{MARKERS.closing}'


def _append_turn(told: list[Message], message: Message) -> None:
    """Many templates demand that turns alternate, so results and the words after them are one turn."""
    if told and isinstance(told[-1], UserMessage) and isinstance(message, UserMessage):
        told[-1] = UserMessage(text=f"{told[-1].text}\n\n{message.text}")
    else:
        told.append(message)


def check_call_arguments(messages: Sequence[Message]) -> None:
    """Refuse earlier calls whose arguments are no JSON: no template could show them.

    Raises:
        InvalidRequestError: says which call it is.
    """
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            try:
                json.loads(call.arguments_json)
            except ValueError as exc:
                raise InvalidRequestError(
                    f"the arguments of the tool call {call.call_id!r} are not JSON: {exc}",
                    hint="send back what the model wrote, unchanged",
                ) from exc


class CallSplitter:
    """Tells text from calls in a stream. A call is passed on when it is whole and its arguments are valid.

    White space around calls belongs to neither. `logprobs_between` tells the log-probabilities of the tokens between
    two places, counted in characters of all that was pushed.
    """

    def __init__(self, tools: Sequence[ToolSpec], new_call_id: Callable[[int], str]) -> None:
        self._tools = tools
        self._new_call_id = new_call_id
        self._held = ""
        self._held_from = 0
        self._is_in_call = False
        self._has_text = False
        self.call_count = 0
        self.logprobs_between: Callable[[int, int], tuple[TokenLogprob, ...]] = lambda _start, _end: ()

    def push(self, text: str) -> list[TextDelta | ToolCallDelta]:
        """Add text; return what is known by now.

        Raises:
            MalformedOutputError: a call is not valid.
        """
        self._held += text
        events: list[TextDelta | ToolCallDelta] = []
        while True:
            mark = MARKERS.closing if self._is_in_call else MARKERS.opening
            before, found, after = self._held.partition(mark)
            if not found:
                break
            if self._is_in_call:
                events.append(self._call(before))
            else:
                events.extend(self._text(before.rstrip()))
            self._held = after
            self._held_from += len(before) + len(found)
            self._is_in_call = not self._is_in_call
        if not self._is_in_call:
            settled = self._held[: len(self._held) - overlap(self._held, MARKERS.opening)].rstrip()
            events.extend(self._text(settled))
            self._held = self._held[len(settled) :]
            self._held_from += len(settled)
        return events

    def flush(self) -> list[TextDelta | ToolCallDelta]:
        """End the stream; return the text that was held back."""
        return list(self._text(self._held.rstrip() if self.call_count else self._held))

    def _text(self, text: str) -> list[TextDelta | ToolCallDelta]:
        """Return a text that what is held begins with."""
        end = self._held_from + len(text)
        if self.call_count and not self._has_text:
            text = text.lstrip()
        self._has_text = self._has_text or bool(text)
        logprobs = self.logprobs_between(end - len(text), end)
        return [TextDelta(text=text, logprobs=logprobs)] if text else []

    def _call(self, body: str) -> ToolCallDelta:
        index = self.call_count
        self.call_count += 1
        self._has_text = False
        whole = f"{MARKERS.opening}{body}{MARKERS.closing}"
        (call,) = parse_tool_calls(
            whole, self._tools, lambda: self._new_call_id(index), markers=MARKERS
        ).calls
        return ToolCallDelta(
            index=index, call_id=call.call_id, name=call.name, arguments_delta=call.arguments_json
        )
