"""Counts tokens as a model would see them, of whole requests and of single texts, and remembers the counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Protocol

from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest

CountRequest = Callable[[GenerateRequest], Awaitable[int]]
"""Counts the prompt of a request with the chat template's own tokens, as it would be prefilled."""

_KEPT_COUNTS = 8192


class TokenCounter(Protocol):
    """Counts tokens for one model."""

    async def count_request(self, request: GenerateRequest) -> int:
        """Return the tokens of a request's prompt, exactly."""
        ...

    async def count_text(self, text: str, request: GenerateRequest) -> int:
        """Return what a text adds to a user message of the request's model, nearly: its ends may join others."""
        ...


class RequestCounter:
    """A `TokenCounter` over one function that counts requests."""

    def __init__(self, count: CountRequest, *, kept_counts: int = _KEPT_COUNTS) -> None:
        self._count = count
        self._kept_counts = kept_counts
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    async def count_request(self, request: GenerateRequest) -> int:
        """Return the tokens of a request's prompt; equal prompts are counted once."""
        # Sampling, deadline and ids do not reach the prompt.
        key = (request.model, request.conversation, request.tools, request.tool_choice, request.output)
        if key not in self._counts:
            self._counts[key] = await self._count(request)
            while len(self._counts) > self._kept_counts:
                self._counts.popitem(last=False)
        self._counts.move_to_end(key)
        return self._counts[key]

    async def count_text(self, text: str, request: GenerateRequest) -> int:
        """Return the difference that a text makes to an empty user message."""
        if not text:
            return 0
        empty = with_messages(request, UserMessage(text=""))
        filled = with_messages(request, UserMessage(text=text))
        return max(0, await self.count_request(filled) - await self.count_request(empty))


def with_messages(request: GenerateRequest, *messages: UserMessage) -> GenerateRequest:
    """Return the request for the same model and output with other messages and no tools."""
    return replace(request, conversation=Conversation(messages), tools=(), tool_choice="auto")
