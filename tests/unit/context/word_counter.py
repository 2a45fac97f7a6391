"""A template and a tokenizer of words and marks, which join across a border now and then as real ones do."""

from __future__ import annotations

import json
import re

from appliance.core.messages import AssistantMessage, Message, SystemMessage
from appliance.core.requests import GenerateRequest

_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]{1,3}|\s+")
DEFAULT_SYSTEM = "You are a helpful assistant of seven words."


class WordTemplate:
    """Counts like an engine: renders with role marks, has a system text of its own when none is given."""

    def __init__(self) -> None:
        self.calls = 0

    def render(self, request: GenerateRequest) -> str:
        messages = request.conversation.messages
        parts = [] if isinstance(messages[0], SystemMessage) else [f"«system»{DEFAULT_SYSTEM}«end»"]
        if request.tools:
            parts.append("".join(f"{tool.name} {tool.parameters_json}" for tool in request.tools))
        parts += [f"«{message.kind}»{_content(message)}«end»" for message in messages]
        return "".join((*parts, "«assistant»"))

    async def count(self, request: GenerateRequest) -> int:
        self.calls += 1
        return len(_TOKEN.findall(self.render(request)))


def _content(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        calls = [{call.name: call.arguments_json} for call in message.tool_calls]
        return message.text + (json.dumps(calls) if calls else "")
    return message.text
