"""What a scripted model does, as values: say, think, call a tool, wait, fail."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

from appliance.core.capabilities import Capability
from appliance.core.errors import Failure, InvalidRequestError
from appliance.core.messages import Conversation

TOKEN = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Write text, one delta per token, with a pause before each."""

    text: str
    token_s: float = 0.0
    kind: Literal["say"] = "say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Think:
    """Reason, one delta per token, with a pause before each."""

    text: str
    token_s: float = 0.0
    kind: Literal["think"] = "think"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTool:
    """Request a tool; the arguments arrive token by token."""

    name: str
    arguments_json: str
    kind: Literal["call_tool"] = "call_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoQuestion:
    """Say the last user message back."""

    token_s: float = 0.0
    kind: Literal["echo_question"] = "echo_question"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing for a while."""

    duration_s: float
    kind: Literal["wait"] = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """End the stream with a failure."""

    failure: Failure
    kind: Literal["fail"] = "fail"


Step = Say | Think | CallTool | EchoQuestion | Wait | Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedModel:
    """A model whose every turn is written down.

    The turn is chosen by how many answers the conversation already holds; past the last turn the last one
    repeats. Of an open turn that begins as the script says, the rest is played. `load_s` passes before the first
    request, `prefill_token_s` for each prompt token not cached.
    """

    name: str
    turns: tuple[tuple[Step, ...], ...] = ((EchoQuestion(),),)
    context_window: int = 4096
    capabilities: frozenset[Capability] = field(
        default_factory=lambda: frozenset(
            ("chat", "json_schema", "reasoning", "tools", "streaming_usage", "raw_prompt", "open_turn")
        )
    )
    load_s: float = 0.0
    prefill_token_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.turns:
            raise InvalidRequestError(f"the scripted model {self.name!r} has no turn")

    @property
    def digest(self) -> str:
        """The sha256 of everything the model would do."""
        return hashlib.sha256(repr((self.name, self.turns, self.context_window)).encode()).hexdigest()

    def turn(self, conversation: Conversation) -> tuple[Step, ...]:
        """Return the steps that answer a conversation, of an open turn all of its steps."""
        answers = sum(message.kind == "assistant" for message in conversation.messages) - conversation.is_open
        return self.turns[min(answers, len(self.turns) - 1)]


def tokens_of(text: str) -> list[str]:
    """Split text into tokens: a run of non-space with the space before it, and space at the end."""
    return TOKEN.findall(text)


def prompt_tokens_of(conversation: Conversation) -> list[str]:
    """Render a conversation as tokens: each message opens with its role and ends with a mark of its own.

    An open turn has no such mark, so the answer goes on right behind its text.
    """
    prompt: list[str] = []
    for message in conversation.messages:
        prompt.append(f"<{message.kind}>")
        prompt += tokens_of(message.text)
        if message.kind == "assistant":
            for call in message.tool_calls:
                prompt += [call.name, *tokens_of(call.arguments_json)]
        prompt.append("<end>")
    return prompt[:-1] if conversation.is_open else [*prompt, "<assistant>"]
