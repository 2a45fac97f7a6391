"""Turns a branch into a request by a short-term policy, with what was folded said aloud and stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from appliance.core.messages import Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import Deadline, GenerateRequest, OutputFormat, SamplingParams, TextFormat
from appliance.core.untrusted import delimited
from appliance.memory.short_term import (
    CountTokens,
    HybridMemory,
    MemoryPolicy,
    MemoryView,
    Summarise,
    describe_fold,
    exchanges_of,
    select_turns,
)
from appliance.memory.summaries import Summaries
from appliance.memory.turns import Chat, Summary, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """A request with its receipt (JSON text) and, where turns were folded, the marker to show."""

    request: GenerateRequest
    receipt_json: str = ""
    marker: str = ""
    new_summary: Summary | None = None


PreparePrompt = Callable[[Chat, Sequence[Turn]], Awaitable[PreparedPrompt]]
"""Makes the request that answers the last turn of a branch. May raise ContextOverflowError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """What answers of a chat are made with."""

    model: str
    sampling: SamplingParams = field(default_factory=SamplingParams)
    output: OutputFormat = field(default_factory=TextFormat)
    deadline: Deadline = field(default_factory=Deadline)
    prompt_id: str = ""
    prompt_version: str = ""


class BranchPrompt:
    """A `PreparePrompt` for plain conversation: system text, facts, summary, kept turns.

    `budget_tokens` is what the conversation may take, the reserved answer already subtracted. Facts and
    the summary are data, not instructions: they stand delimited before the first kept question, where they
    change only when something is folded, so that the rest of the prompt stays reusable.
    """

    def __init__(
        self,
        *,
        settings: AnswerSettings,
        budget_tokens: int,
        count_tokens: CountTokens,
        summaries: Summaries,
        owner: str,
        policy: MemoryPolicy | None = None,
        summarise: Summarise | None = None,
        facts_text: Callable[[], str] = str,
    ) -> None:
        self._settings = settings
        self._budget_tokens = budget_tokens
        self._count_tokens = count_tokens
        self._summaries = summaries
        self._owner = owner
        self._policy = policy or HybridMemory()
        self._summarise = summarise
        self._facts_text = facts_text

    async def __call__(self, chat: Chat, branch: Sequence[Turn]) -> PreparedPrompt:
        """Prepare the request that answers the last turn."""
        facts = await asyncio.to_thread(self._facts_text)
        stored = await asyncio.to_thread(self._summaries.for_branch, branch)
        system = (SystemMessage(text=chat.system_text),) if chat.system_text else ()
        view = self._select(branch, system, facts, stored)
        summary, is_new = view.summary, False
        if view.to_summarise and self._summarise is not None:
            summary, is_new = await self._fold(view), True
            view = self._select(branch, system, facts, summary)
        messages = (*system, *_with_preamble(view.messages, _preamble(facts, summary)))
        return PreparedPrompt(
            request=self._request(messages),
            receipt_json=_receipt(view, summary, facts),
            marker=describe_fold(view),
            new_summary=summary if is_new else None,
        )

    def _select(
        self, branch: Sequence[Turn], system: tuple[SystemMessage, ...], facts: str, summary: Summary | None
    ) -> MemoryView:
        fixed: tuple[Message, ...] = system
        if preamble := _preamble(facts, summary):
            fixed = (*system, UserMessage(text=preamble))
        fixed_tokens = self._count_tokens(fixed) if fixed else 0
        return select_turns(
            self._policy,
            branch,
            budget_tokens=self._budget_tokens - fixed_tokens,
            count_tokens=self._count_tokens,
            summary=summary,
        )

    async def _fold(self, view: MemoryView) -> Summary:
        assert self._summarise is not None
        before = view.summary.text if view.summary else ""
        messages = [message for exchange in view.to_summarise for message in exchange.messages]
        text = await self._summarise(before, messages)
        covered = [turn for each in view.folded for turn in each.exchange.turns]
        return await asyncio.to_thread(self._summaries.add, covered, text, made_by=self._settings.model)

    def _request(self, messages: tuple[Message, ...]) -> GenerateRequest:
        return GenerateRequest(
            conversation=Conversation(messages),
            model=self._settings.model,
            sampling=self._settings.sampling,
            output=self._settings.output,
            deadline=self._settings.deadline,
            owner=self._owner,
            prompt_id=self._settings.prompt_id,
            prompt_version=self._settings.prompt_version,
        )


def _preamble(facts: str, summary: Summary | None) -> str:
    parts = [facts] if facts else []
    if summary is not None:
        introduction = "Summary of the earlier conversation, written by a model:"
        parts.append(f"{introduction}\n{delimited('summary', [summary.text])}")
    return "\n\n".join(parts)


def _with_preamble(messages: tuple[Message, ...], preamble: str) -> tuple[Message, ...]:
    if not preamble:
        return messages
    first = messages[0]
    # Many chat templates demand that user and assistant turns alternate.
    if isinstance(first, UserMessage):
        return (UserMessage(text=f"{preamble}\n\n{first.text}"), *messages[1:])
    return (UserMessage(text=preamble), *messages)


def _receipt(view: MemoryView, summary: Summary | None, facts: str) -> str:
    folded = [
        {"turn_ids": [turn.id for turn in each.exchange.turns], "tokens": each.tokens, "reason": each.reason}
        for each in view.folded
    ]
    return json.dumps(
        {
            "budget_tokens": view.budget_tokens,
            "kept_tokens": view.kept_tokens,
            "kept_turn_ids": [turn.id for exchange in view.kept for turn in exchange.turns],
            "folded": folded,
            "summary_id": summary.id if summary else None,
            "has_facts": bool(facts),
        }
    )


def branch_messages(branch: Sequence[Turn]) -> tuple[Message, ...]:
    """Return a branch as messages with nothing folded."""
    return tuple(message for exchange in exchanges_of(branch) for message in exchange.messages)
