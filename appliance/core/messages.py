"""Messages of a conversation as a closed union, and the rules a conversation must keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.core.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One requested invocation: the tool's name and its arguments as JSON text."""

    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage:
    """Instructions of the operator. Text of users and documents never goes here."""

    text: str
    kind: Literal["system"] = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What the user said."""

    text: str
    kind: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """What the model answered: text, reasoning kept apart from it, and tool calls."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    kind: Literal["assistant"] = "assistant"

    def __post_init__(self) -> None:
        call_ids = [call.call_id for call in self.tool_calls]
        if len(set(call_ids)) != len(call_ids):
            raise InvalidRequestError("two tool calls of one assistant message share a call id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The result of one tool call of the assistant message before it."""

    call_id: str
    name: str
    text: str
    kind: Literal["tool"] = "tool"


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Conversation:
    """A non-empty, well-formed list of messages that awaits the assistant's turn.

    With `is_open` the last message is an assistant's turn that is not over: what is written next goes on inside
    it, right behind its last character.

    Raises:
        InvalidRequestError: it is empty, a system message is not first, an assistant turn follows an
            assistant turn, a tool message answers no open call, nothing awaits an answer, or what is said to be
            an open turn is none.
    """

    messages: tuple[Message, ...]
    is_open: bool = False

    def __post_init__(self) -> None:
        if not self.messages:
            raise InvalidRequestError("a conversation needs at least one message")
        _check_order(self.messages)
        if self.is_open:
            _check_can_go_on(self.messages[-1])
        elif self.messages[-1].kind in ("system", "assistant"):
            raise InvalidRequestError(
                f"the last message is of the {self.messages[-1].kind}; nothing awaits an answer",
                hint="end the conversation with a user or tool message",
            )

    @classmethod
    def of(cls, *messages: Message) -> Conversation:
        """Build a conversation from its messages in order."""
        return cls(tuple(messages))

    @property
    def open_turn(self) -> AssistantMessage | None:
        """The assistant's turn that is to be gone on with, or None."""
        last = self.messages[-1]
        return last if self.is_open and isinstance(last, AssistantMessage) else None

    @property
    def system_text(self) -> str:
        """The system message's text, or an empty string."""
        first = self.messages[0]
        return first.text if isinstance(first, SystemMessage) else ""


def _check_can_go_on(last: Message) -> None:
    if not isinstance(last, AssistantMessage):
        raise InvalidRequestError(
            f"the last message is of the {last.kind}; only a turn of the assistant can be gone on with",
            hint="end the conversation with the assistant's text so far, or ask for a new turn",
        )
    if last.tool_calls:
        raise InvalidRequestError(
            "the last message calls tools; a turn that ended with a call cannot be gone on with",
            hint="add the results of the calls and ask for a new turn",
        )
    if not last.text:
        raise InvalidRequestError(
            "the last message has no text to go on with", hint="leave it out and ask for a new turn"
        )


def _check_order(messages: tuple[Message, ...]) -> None:
    open_calls: dict[str, str] = {}
    previous: Message | None = None
    for position, message in enumerate(messages):
        match message:
            case SystemMessage():
                if position > 0:
                    raise InvalidRequestError(
                        f"message {position} is a system message; only the first may be one"
                    )
            case UserMessage():
                _check_all_answered(open_calls, position)
            case AssistantMessage():
                _check_all_answered(open_calls, position)
                if isinstance(previous, AssistantMessage):
                    raise InvalidRequestError(
                        f"message {position} is an assistant turn after an assistant turn"
                    )
                open_calls = {call.call_id: call.name for call in message.tool_calls}
            case ToolMessage():
                if open_calls.pop(message.call_id, None) != message.name:
                    raise InvalidRequestError(
                        f"message {position} answers the tool call {message.call_id!r} of "
                        f"{message.name!r}, which no assistant message before it made"
                    )
        previous = message
    _check_all_answered(open_calls, len(messages))


def _check_all_answered(open_calls: dict[str, str], position: int) -> None:
    if open_calls:
        missing = ", ".join(sorted(open_calls))
        raise InvalidRequestError(f"tool calls without a result before message {position}: {missing}")
