"""Prepares the prompt of a plain conversation: instructions, facts, a summary of what was folded, recent turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from appliance.context.budget import ContextBudget
from appliance.context.builder import BuiltContext, ContextBuilder
from appliance.context.counting import RequestCounter
from appliance.context.delimiting import enclosed
from appliance.context.parts import rendered_fact, rendered_summary
from appliance.core.errors import ApplianceError, CancelledRequestError
from appliance.core.messages import Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.gateway import Gateway
from appliance.memory.conversations import Conversations
from appliance.memory.prompt import PreparedPrompt, ReportFolding, conversation_on
from appliance.memory.short_term import (
    Exchange,
    HybridMemory,
    MemoryPolicy,
    MemoryView,
    describe_fold,
    exchanges_of,
    select_turns,
)
from appliance.memory.summaries import Summaries
from appliance.memory.summarising import ConversationSummariser, SummaryTask
from appliance.memory.turns import Chat, Summary, Turn

RecallFacts = Callable[[Sequence[Turn]], Sequence[str]]
"""Returns the confirmed facts that a branch is answered with. May block."""

_RESERVED_SHARE = 0.25
_MOST_RESERVED_TOKENS = 1024
# What the builder lets facts take of what can be shared.
_FACTS_SHARE = 0.2
# A summary takes room itself, so that once more turns may have to be folded.
_MOST_FOLDS = 2


@dataclass(slots=True, kw_only=True)
class AnswerChoice:
    """Who answers, how tokens are chosen and what is remembered; a user changes it while the program runs."""

    model: str
    sampling: SamplingParams
    memory: MemoryPolicy = field(default_factory=HybridMemory)


def no_facts(branch: Sequence[Turn]) -> Sequence[str]:  # noqa: ARG001
    """Recall nothing."""
    return ()


class ChatPrompt:
    """A `PreparePrompt`. What the policy folds is summarised by the model that answers, stored, and said."""

    def __init__(
        self,
        gateway: Gateway,
        conversations: Conversations,
        choice: AnswerChoice,
        *,
        recall: RecallFacts = no_facts,
    ) -> None:
        self._gateway = gateway
        self._owner = conversations.owner
        self._summaries = conversations.summaries
        self._choice = choice
        self._recall = recall
        self._counter = RequestCounter(gateway.count_tokens)
        self._summariser = ConversationSummariser(gateway, self._counter)

    async def __call__(self, chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
        """Prepare the request that answers the last turn, or goes on with it where that is an answer itself.

        Raises:
            ContextOverflowError: the last question does not fit, or with full memory the whole does not.
            ApplianceError: the model cannot be used.
        """
        choice = replace(self._choice)
        budget = await self._budget(choice)
        facts = await asyncio.to_thread(self._recall, branch)
        room = await self._room(chat, branch, choice, budget, facts)
        folding = _Folding(
            summaries=self._summaries,
            summariser=self._summariser,
            task=SummaryTask(model=choice.model, owner=self._owner, context_window=budget.context_window),
            room=room,
            stored=await asyncio.to_thread(self._summaries.for_branch, branch),
        )
        view = await folding.fold(on_folding)
        summary = folding.summary if view.summary else None
        request = room.request_of((*room.system, *_alternating(view.messages)))
        built = await ContextBuilder(self._counter, budget).build(
            request, facts=facts, summary=summary.text if summary else ""
        )
        return PreparedPrompt(
            request=built.request,
            receipt_json=_receipt(built, view, summary, choice.memory),
            marker=_marker(view, folding, built),
            new_summary=folding.new_summary,
        )

    async def _budget(self, choice: AnswerChoice) -> ContextBudget:
        window = (await self._gateway.capabilities(choice.model)).context_window
        wanted = choice.sampling.max_tokens or _MOST_RESERVED_TOKENS
        return ContextBudget(
            context_window=window, reserved_tokens=min(wanted, int(window * _RESERVED_SHARE))
        )

    async def _room(
        self,
        chat: Chat,
        branch: Sequence[Turn],
        choice: AnswerChoice,
        budget: ContextBudget,
        facts: Sequence[str],
    ) -> _Room:
        """Count what every exchange takes, and what is left for them beside what is never cut."""
        system: tuple[Message, ...] = (SystemMessage(text=chat.system_text),) if chat.system_text else ()
        empty = UserMessage(text="")
        room = _Room(
            counter=self._counter,
            branch=branch,
            policy=choice.memory,
            system=system,
            bare=GenerateRequest(
                conversation=Conversation((*system, empty)),
                model=choice.model,
                sampling=choice.sampling,
                owner=self._owner,
            ),
        )
        *earlier, last = [each for each in exchanges_of(branch) if each.messages]
        bare_tokens = await self._counter.count_request(room.bare)
        for exchange in earlier:
            whole = room.request_of((*system, *exchange.messages, empty))
            tokens = await self._counter.count_request(whole) - bare_tokens
            room.costs[exchange.messages] = max(0, tokens)
        # The builder has the last word on the question, and a better one where it does not fit.
        room.costs[last.messages] = 0
        asked = await self._counter.count_request(room.request_of((*system, *last.messages)))
        shared = max(0, budget.available_tokens - asked)
        block = enclosed("memory", [rendered_fact(fact) for fact in facts]) if facts else ""
        facts_tokens = await self._counter.count_text(block, room.bare)
        room.shared_tokens = max(0, shared - min(facts_tokens, int(shared * _FACTS_SHARE)))
        return room


@dataclass(slots=True, kw_only=True)
class _Room:
    """What the exchanges of a branch take, and what they may take together with the summary."""

    counter: RequestCounter
    branch: Sequence[Turn]
    policy: MemoryPolicy
    system: tuple[Message, ...]
    bare: GenerateRequest
    costs: dict[tuple[Message, ...], int] = field(default_factory=dict)
    shared_tokens: int = 0

    def request_of(self, messages: tuple[Message, ...]) -> GenerateRequest:
        """Return the request with other messages."""
        return replace(self.bare, conversation=conversation_on(self.branch, messages))

    async def select(self, summary: Summary | None) -> MemoryView:
        """Apply the policy."""
        text = rendered_summary(summary.text) if summary else ""
        taken = await self.counter.count_text(text, self.bare)
        return select_turns(
            self.policy,
            self.branch,
            budget_tokens=max(0, self.shared_tokens - taken),
            count_tokens=lambda messages: self.costs[tuple(messages)],
            summary=summary,
        )


@dataclass(slots=True, kw_only=True)
class _Folding:
    """Writes the summaries that a policy asks for. A summary that cannot be written is said, not hidden."""

    summaries: Summaries
    summariser: ConversationSummariser
    task: SummaryTask
    room: _Room
    stored: Summary | None
    new_summary: Summary | None = None
    problem: str = ""

    @property
    def summary(self) -> Summary | None:
        """The summary that holds now."""
        return self.new_summary or self.stored

    async def fold(self, on_folding: ReportFolding) -> MemoryView:
        """Return what of the branch goes into the prompt."""
        view = await self.room.select(self.summary)
        for _ in range(_MOST_FOLDS):
            if not view.to_summarise:
                break
            on_folding(sum(len(exchange.turns) for exchange in view.to_summarise))
            try:
                self.new_summary = await self._written(view)
            except CancelledRequestError:
                raise
            except ApplianceError as exc:
                self.problem = exc.message
                break
            view = await self.room.select(self.summary)
        return view

    async def _written(self, view: MemoryView) -> Summary:
        before = view.summary.text if view.summary else ""
        text = await self.summariser.summarise(self.task, before, view.to_summarise)
        covered = [turn for each in view.folded for turn in each.exchange.turns]
        return await asyncio.to_thread(self.summaries.add, covered, text, made_by=self.task.model)


def _alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Join questions that were never answered to the one after them: many templates refuse two in a row."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            joined[-1] = UserMessage(text=f"{last.text}\n\n{message.text}")
        else:
            joined.append(message)
    return tuple(joined)


def _marker(view: MemoryView, folding: _Folding, built: BuiltContext) -> str:
    """Say what the prompt leaves out, unless an earlier answer of this branch said the very same."""
    said = []
    missing = _turn_count(view.to_summarise)
    if missing:
        why = f": no summary could be written, {folding.problem}" if folding.problem else ""
        said.append(f"{missing} earlier turns are not in the prompt: they do not fit{why}")
    elif view.folded and (folding.new_summary is not None or view.summary is None):
        said.append(describe_fold(view))
    turns = built.receipt.section("turns")
    if count := sum(entry.outcome != "kept" for entry in turns.entries):
        said.append(
            f"{count} earlier exchanges ({turns.cut_tokens:,} tokens) are not in the prompt: they do not fit"
        )
    return "; ".join(said)


def _turn_count(exchanges: Sequence[Exchange]) -> int:
    return sum(len(exchange.turns) for exchange in exchanges)


def _receipt(built: BuiltContext, view: MemoryView, summary: Summary | None, policy: MemoryPolicy) -> str:
    covered = summary.covered_turn_ids if summary else ()
    return json.dumps(
        {
            **built.receipt.to_json(),
            "conversation_memory": {
                "policy": policy.kind,
                "folded_turns": sum(len(each.exchange.turns) for each in view.folded),
                "folded_tokens": sum(each.tokens for each in view.folded),
                "summarised_turns": len(covered),
                "summary_id": summary.id if summary else None,
            },
        }
    )
