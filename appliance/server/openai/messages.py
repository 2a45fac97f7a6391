"""Messages of the wire as a conversation: instructions first, names of tool results looked up, media refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.server.openai.chat_wire import (
    AnswerMessage,
    Content,
    InstructionMessage,
    QuestionMessage,
    ResultMessage,
    TextPart,
    WireMessage,
)
from appliance.server.problems import refused


def goes_on(continue_final_message: bool | None, add_generation_prompt: bool | None) -> bool:
    """Whether the answer goes on inside the last message, as vLLM's two fields say.

    Raises:
        InvalidRequestError: they contradict each other, or ask for a prompt that no turn is begun in.
    """
    if continue_final_message and add_generation_prompt:
        raise refused(
            "continue_final_message and add_generation_prompt cannot both be true: a turn goes on or a new one begins",
            param="add_generation_prompt",
            code="invalid_value",
            hint="leave one of them out",
        )
    if add_generation_prompt is False and not continue_final_message:
        raise refused(
            "add_generation_prompt can only be false together with continue_final_message",
            param="add_generation_prompt",
            code="invalid_value",
            hint="say continue_final_message: true, or leave add_generation_prompt out",
        )
    return bool(continue_final_message)


def conversation_of(messages: Sequence[WireMessage], *, is_open: bool = False) -> Conversation:
    """Return the conversation that messages make. Instructions at the beginning are joined to one. With `is_open`
    the last one is an assistant's that goes on.

    Raises:
        InvalidRequestError: they are in an order no model can follow, or hold something else than text.
    """
    instructions = list(takewhile(lambda message: isinstance(message, InstructionMessage), messages))
    leading = len(instructions)
    system = "\n\n".join(
        _text(message.content or "", f"messages[{place}]") for place, message in enumerate(instructions)
    )
    conversation: list[Message] = [SystemMessage(text=system)] if leading else []
    names: dict[str, str] = {}
    for place, message in enumerate(messages[leading:], start=leading):
        conversation.append(_message(message, f"messages[{place}]", names))
    if not is_open and isinstance(conversation[-1], AssistantMessage):
        raise refused(
            "the last message is of the assistant; nothing awaits an answer",
            param=f"messages[{len(messages) - 1}]",
            code="invalid_value",
            hint="end with a user or tool message, or say continue_final_message: true to go on inside the last one",
        )
    return Conversation(tuple(conversation), is_open=is_open)


def _message(message: WireMessage, place: str, names: dict[str, str]) -> Message:
    match message:
        case InstructionMessage():
            raise refused(
                f"{place} is of the {message.role}; instructions stand before everything else",
                param=place,
                hint="move it to the beginning",
            )
        case QuestionMessage():
            return UserMessage(text=_text(message.content, place))
        case AnswerMessage():
            return _answer(message, place, names)
        case ResultMessage():
            name = names.get(message.tool_call_id, "")
            if not name:
                raise refused(
                    f"{place} answers the tool call {message.tool_call_id[:80]!r}, which no message before it made",
                    param=f"{place}.tool_call_id",
                    code="invalid_value",
                )
            return ToolMessage(call_id=message.tool_call_id, name=name, text=_text(message.content, place))


def _answer(message: AnswerMessage, place: str, names: dict[str, str]) -> AssistantMessage:
    for field in ("audio", "function_call"):
        if getattr(message, field) is not None:
            raise refused(f"{place}.{field} is not served", param=f"{place}.{field}", hint="use tool_calls")
    calls = tuple(
        ToolCall(call_id=call.id, name=call.function.name, arguments_json=call.function.arguments)
        for call in message.tool_calls or ()
    )
    names.update((call.call_id, call.name) for call in calls)
    said = [message.refusal or "", "" if message.content is None else _text(message.content, place)]
    return AssistantMessage(
        text="\n".join(text for text in said if text),
        reasoning=message.reasoning_content or "",
        tool_calls=calls,
    )


def _text(content: Content, place: str) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for number, part in enumerate(content):
        if not isinstance(part, TextPart):
            raise refused(
                f"{place}.content[{number}] is {part.type}; models here read text only",
                param=f"{place}.content[{number}]",
                code="unsupported_content",
                hint="send text; `POST /v1/collections/NAME/documents` reads files",
            )
        texts.append(part.text)
    return "".join(texts)
