"""What stands between a branch and its answer: a prepared request with its receipt, and who prepares it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from appliance.core.events import StreamEvent
from appliance.core.messages import Message
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
"""Makes the request that answers the last turn of a branch. May raise ApplianceError."""


def branch_messages(branch: Sequence[Turn]) -> tuple[Message, ...]:
    """Return a branch as messages with nothing folded."""
    return tuple(message for exchange in exchanges_of(branch) for message in exchange.messages)
