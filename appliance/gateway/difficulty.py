"""How hard a request looks, from 0 to 10, counted by code from what can be seen of it."""

from __future__ import annotations

from appliance.core.requests import GenerateRequest, JsonSchemaFormat, TextFormat
from appliance.core.routing import HARDEST

_LONG_PROMPT_CHARACTERS = (2_000, 8_000, 32_000, 128_000)
_LARGE_SCHEMA_CHARACTERS = 2_000
_MANY_TOOLS = 5
_MANY_MESSAGES = 8


def difficulty_of(request: GenerateRequest) -> int:
    """Return what the caller states, or else a point for each thing that small models fail at:

    a prompt of more than 2,000, 8,000, 32,000 and 128,000 characters (one each), a stated form and a large
    schema, tools and many of them, thinking that was asked for, and a long conversation.
    """
    if request.routing.difficulty is not None:
        return request.routing.difficulty
    messages = request.conversation.messages
    characters = sum(len(message.text) for message in messages)
    points = sum(characters > limit for limit in _LONG_PROMPT_CHARACTERS)
    points += not isinstance(request.output, TextFormat)
    points += isinstance(request.output, JsonSchemaFormat) and (
        len(request.output.schema_json) > _LARGE_SCHEMA_CHARACTERS
    )
    points += bool(request.tools)
    points += len(request.tools) > _MANY_TOOLS
    points += bool(request.sampling.reasoning_budget)
    points += len(messages) > _MANY_MESSAGES
    return min(points, HARDEST)
