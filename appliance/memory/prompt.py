"""What stands between a branch and its answer: a prepared request with its receipt, and who prepares it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from appliance.core.events import StreamEvent
from appliance.core.messages import AssistantMessage, Conversation, Message, SystemMessage
from appliance.core.requests import GenerateRequest
from appliance.memory.short_term import exchanges_of
from appliance.memory.turns import Chat, Summary, Turn

StreamAnswer = Callable[[GenerateRequest], AsyncIterator[StreamEvent]]
"""The gateway's or a provider's `stream`."""

ReportFolding = Callable[[int], None]
"""Takes the number of turns that a summary is being written of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """A request with its receipt (JSON text) and, where turns were folded, the marker to show.

    `stream` answers it instead of the usual one; `receipt_at_end` is then asked for what only the end knows.
    """

    request: GenerateRequest
    receipt_json: str = ""
    marker: str = ""
    new_summary: Summary | None = None
    stream: StreamAnswer | None = None
    receipt_at_end: Callable[[], str] | None = None


PreparePrompt = Callable[[Chat, Sequence[Turn], ReportFolding], Awaitable[PreparedPrompt]]
"""Makes the request that answers the last turn of a branch, or goes on with it where that is an answer itself.

May raise ApplianceError.
"""


def branch_conversation(branch: Sequence[Turn], *, system_text: str = "") -> Conversation:
    """Return a branch as a conversation with nothing folded."""
    system: tuple[Message, ...] = (SystemMessage(text=system_text),) if system_text else ()
    said = (message for exchange in exchanges_of(branch) for message in exchange.messages)
    return conversation_on(branch, (*system, *said))


def conversation_on(branch: Sequence[Turn], messages: tuple[Message, ...]) -> Conversation:
    """Return messages of a branch as a conversation; where an answer is its last turn, that is open.

    The thinking of earlier answers is not sent again; that of the open one led to what is written next.
    """
    last = messages[-1]
    if not isinstance(last, AssistantMessage):
        return Conversation(messages)
    return Conversation((*messages[:-1], replace(last, reasoning=branch[-1].reasoning)), is_open=True)
