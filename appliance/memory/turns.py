"""The values of a conversation: chats, turns in a tree, and what made each answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from appliance.core.errors import Failure
from appliance.core.events import ModelIdentity
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import (
    GenerateRequest,
    OutputFormat,
    SamplingParams,
    TextFormat,
    ToolChoice,
    ToolSpec,
)
from appliance.core.usage import FinishReason, Timings, Usage

Role = Literal["user", "assistant", "tool", "note"]
TurnState = Literal["done", "partial", "stopped", "failed", "forgotten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """What was asked for, so that the answer can be run again.

    `messages` are exactly those sent, the system message and inserted evidence included; `seed` in
    `sampling` is the one used, also where the caller stated none.
    """

    model: str
    messages: tuple[Message, ...]
    sampling: SamplingParams
    output: OutputFormat = field(default_factory=TextFormat)
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    prompt_id: str = ""
    prompt_version: str = ""
    request_id: str = ""

    @property
    def conversation(self) -> Conversation:
        """The messages as they were sent: one that ends with a turn of the assistant was gone on with."""
        return Conversation(self.messages, is_open=self.open_turn is not None)

    @property
    def open_turn(self) -> AssistantMessage | None:
        """The turn it goes on with, or None."""
        last = self.messages[-1] if self.messages else None
        return last if isinstance(last, AssistantMessage) else None

    @classmethod
    def of(cls, request: GenerateRequest) -> SentRequest:
        """Return what is kept of a request."""
        return cls(
            model=request.model,
            messages=request.conversation.messages,
            sampling=request.sampling,
            output=request.output,
            tools=request.tools,
            tool_choice=request.tool_choice,
            prompt_id=request.prompt_id,
            prompt_version=request.prompt_version,
            request_id=request.request_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """How an answer ended. `model` and `finish_reason` are None while it is written, and for ever when the
    program ended before the answer was whole.
    """

    model: ModelIdentity | None = None
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    finish_reason: FinishReason | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One node of the tree. `note` turns are shown and never sent to a model.

    A `partial` answer is being written by a living process now; one that was cut off is `stopped`.
    """

    id: str
    chat_id: str
    parent_id: str | None
    sequence: int
    role: Role
    state: TurnState
    text: str
    created_at_s: float
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    tool_name: str = ""
    answer: AnswerRecord | None = None

    def message(self) -> Message | None:
        """Return the turn as a model reads it; None when there is nothing to read."""
        match self.role:
            case "user":
                return UserMessage(text=self.text)
            case "assistant" if self.text or self.tool_calls:
                return AssistantMessage(text=self.text, tool_calls=self.tool_calls)
            case "tool":
                return ToolMessage(call_id=self.tool_call_id, name=self.tool_name, text=self.text)
            case _:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation as lists show it. `active_turn_id` is the leaf of the branch that is shown."""

    id: str
    title: str
    system_text: str
    created_at_s: float
    updated_at_s: float
    is_pinned: bool
    is_archived: bool
    is_deleted: bool
    active_turn_id: str | None
    turn_count: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """The alternatives at one place of the tree, in order of creation, and which of them is shown."""

    turn_ids: tuple[str, ...]
    shown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A text that stands for older turns of one branch, up to and including `last_turn_id`."""

    id: str
    chat_id: str
    last_turn_id: str
    covered_turn_ids: tuple[str, ...]
    text: str
    made_by: str
    created_at_s: float
