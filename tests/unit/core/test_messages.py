"""A conversation that breaks a rule cannot be constructed."""

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

HELLO = UserMessage(text="hello")
CALL = ToolCall(call_id="1", name="clock", arguments_json="{}")
CALLING = AssistantMessage(tool_calls=(CALL,))
RESULT = ToolMessage(call_id="1", name="clock", text="noon")

BROKEN: list[tuple[str, tuple[Message, ...]]] = [
    ("at least one message", ()),
    ("nothing awaits an answer", (SystemMessage(text="be brief"),)),
    ("nothing awaits an answer", (HELLO, AssistantMessage(text="hi"))),
    ("after an assistant turn", (HELLO, AssistantMessage(text="a"), AssistantMessage(text="b"), HELLO)),
    ("only the first may be one", (HELLO, SystemMessage(text="late"), HELLO)),
    ("which no assistant message before it made", (HELLO, RESULT)),
    (
        "which no assistant message before it made",
        (HELLO, CALLING, ToolMessage(call_id="2", name="clock", text="")),
    ),
    (
        "which no assistant message before it made",
        (HELLO, CALLING, ToolMessage(call_id="1", name="other", text="")),
    ),
    ("which no assistant message before it made", (HELLO, CALLING, RESULT, RESULT)),
    ("without a result", (HELLO, CALLING, HELLO)),
]


@pytest.mark.parametrize("why, messages", BROKEN)
def test_a_broken_conversation_is_refused_with_the_reason(why: str, messages: tuple[Message, ...]) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        Conversation(messages)


def test_a_whole_tool_exchange_is_well_formed() -> None:
    conversation = Conversation.of(SystemMessage(text="be brief"), HELLO, CALLING, RESULT)

    assert conversation.system_text == "be brief"


def test_two_calls_with_one_id_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="share a call id"):
        AssistantMessage(tool_calls=(CALL, CALL))
