"""How the request behind an answer is stored: messages that are turns of the chat are kept by reference.

So a long chat does not hold its own text many times over, and a forgotten turn is gone from every request
that held it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from appliance.core.requests import OutputFormat, SamplingParams, ToolChoice, ToolSpec
from appliance.memory.codec import from_json, to_json
from appliance.memory.turns import SentRequest, Turn

FORGOTTEN_TEXT = "[forgotten]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReference:
    """A message that is a turn of the same chat, word for word."""

    turn_id: str
    kind: Literal["turn"] = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredRequest:
    model: str
    messages: tuple[TurnReference | SystemMessage | UserMessage | AssistantMessage | ToolMessage, ...]
    sampling: SamplingParams
    output: OutputFormat
    tools: tuple[ToolSpec, ...]
    tool_choice: ToolChoice
    prompt_id: str
    prompt_version: str
    request_id: str


def encode_request(request: SentRequest, branch: Sequence[Turn]) -> str:
    """Return a request as JSON text, with references to the turns of its branch."""
    messages = [(turn.id, turn.message()) for turn in branch]
    waiting = [(turn_id, message) for turn_id, message in messages if message is not None]
    stored: list[TurnReference | Message] = []
    position = 0
    for message in request.messages:
        found = _find(message, waiting, position)
        if found is None:
            stored.append(message)
            continue
        stored.append(TurnReference(turn_id=waiting[found][0]))
        position = found + 1
    return to_json(
        _StoredRequest(
            model=request.model,
            messages=tuple(stored),
            sampling=request.sampling,
            output=request.output,
            tools=request.tools,
            tool_choice=request.tool_choice,
            prompt_id=request.prompt_id,
            prompt_version=request.prompt_version,
            request_id=request.request_id,
        ),
        _StoredRequest,
    )


def decode_request(stored_json: str, load: Callable[[Iterable[str]], dict[str, Turn]]) -> SentRequest:
    """Read a request back; `load` returns the turns that are referred to, by id."""
    stored = from_json(stored_json, _StoredRequest, "request")
    turns = load(message.turn_id for message in stored.messages if isinstance(message, TurnReference))
    return SentRequest(
        model=stored.model,
        messages=tuple(_resolve(message, turns) for message in stored.messages),
        sampling=stored.sampling,
        output=stored.output,
        tools=stored.tools,
        tool_choice=stored.tool_choice,
        prompt_id=stored.prompt_id,
        prompt_version=stored.prompt_version,
        request_id=stored.request_id,
    )


def _find(message: Message, waiting: Sequence[tuple[str, Message]], start: int) -> int | None:
    for position in range(start, len(waiting)):
        if waiting[position][1] == message:
            return position
    return None


def _resolve(message: TurnReference | Message, turns: dict[str, Turn]) -> Message:
    if not isinstance(message, TurnReference):
        return message
    turn = turns.get(message.turn_id)
    found = turn.message() if turn is not None and turn.state != "forgotten" else None
    return found or UserMessage(text=FORGOTTEN_TEXT)
