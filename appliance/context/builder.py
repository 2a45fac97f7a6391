"""Builds the prompt that fits: counts with the model's own tokenizer, cuts by policy, and says what it cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from appliance.context.accounting import account
from appliance.context.budget import (
    DEFAULT_RULES,
    ContextBudget,
    CuttableSection,
    SectionRule,
    allowance,
    check_rules,
)
from appliance.context.counting import TokenCounter
from appliance.context.parts import (
    Passage,
    PromptParts,
    best_at_the_ends,
    documents_block,
    parts_of,
    rendered_fact,
    rendered_summary,
)
from appliance.context.receipt import ContextReceipt, ReceiptEntry, SectionName, SectionReceipt
from appliance.context.selection import Candidate, SectionChoice
from appliance.context.shortening import shorten_middle
from appliance.core.errors import ContextOverflowError, InvalidRequestError
from appliance.core.messages import Message, ToolMessage, UserMessage
from appliance.core.requests import GenerateRequest

_SHORTEST_TOOL_RESULT_TOKENS = 16

_Text = TypeVar("_Text")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltContext:
    """A request that fits, and its receipt. `passages` are the given ones that it holds, in its order."""

    request: GenerateRequest
    receipt: ContextReceipt
    passages: tuple[int, ...]


class ContextBuilder:
    """Builds requests for one model within one budget.

    System text, tools and the last question are never cut. Turns, passages, facts and the summary share the
    rest by `rules`, which stand in order of priority.
    """

    def __init__(
        self, counter: TokenCounter, budget: ContextBudget, *, rules: Sequence[SectionRule] = DEFAULT_RULES
    ) -> None:
        check_rules(rules)
        self._counter = counter
        self._budget = budget
        self._rules = tuple(rules)

    async def build(
        self,
        request: GenerateRequest,
        *,
        passages: Sequence[Passage] = (),
        facts: Sequence[str] = (),
        summary: str = "",
        keeps_order: bool = False,
    ) -> BuiltContext:
        """Fit a request with passages (best first), remembered facts and the summary of earlier turns.

        The best passages come to stand first and last, unless `keeps_order` says to leave them as given.

        Raises:
            ContextOverflowError: system text, tools and the last question alone do not fit.
            InvalidRequestError: there are passages and no question to put them to.
        """
        parts = parts_of(request, facts=facts, summary=summary, passages=passages)
        if passages and parts.question is None:
            raise InvalidRequestError("there is no question that the documents could answer")
        parts, tool_entries = await self._with_tool_results_that_fit(parts)
        fixed_tokens = await self._count(_fixed(parts))
        choices = await self._choices(parts)
        self._share(choices, self._budget.available_tokens - fixed_tokens)
        await self._shorten_what_is_alone(parts, choices)
        chosen, order = _chosen(parts, choices, keeps_order=keeps_order)
        while await self._count(chosen) > self._budget.available_tokens and self._drop_one(choices):
            chosen, order = _chosen(parts, choices, keeps_order=keeps_order)
        return BuiltContext(
            request=chosen.to_request(),
            receipt=await self._receipt(chosen, choices, tool_entries),
            passages=order,
        )

    async def _count(self, parts: PromptParts) -> int:
        return await self._counter.count_request(parts.to_request())

    async def _with_tool_results_that_fit(
        self, parts: PromptParts
    ) -> tuple[PromptParts, tuple[ReceiptEntry, ...]]:
        """Shorten results of tools that the model waits for, each to the same share, when they are too long."""
        over_tokens = await self._count(_fixed(parts)) - self._budget.available_tokens
        if over_tokens <= 0:
            return parts, await self._kept_entries(parts)
        bare = replace(parts, after=tuple(_emptied(message) for message in parts.after))
        count = sum(isinstance(message, ToolMessage) for message in parts.after)
        room = self._budget.available_tokens - await self._count(_fixed(bare))
        while count and room // count >= _SHORTEST_TOOL_RESULT_TOKENS:
            shortened, entries = await self._shortened_results(parts, room // count)
            if await self._count(_fixed(shortened)) <= self._budget.available_tokens:
                return shortened, entries
            room = room * 9 // 10
        raise await self._overflow(parts)

    async def _kept_entries(self, parts: PromptParts) -> tuple[ReceiptEntry, ...]:
        entries = []
        for message in parts.after:
            tokens = await self._counter.count_text(message.text, parts.request)
            entries.append(_never_cut(_label(message), tokens))
        return tuple(entries)

    async def _shortened_results(
        self, parts: PromptParts, limit_tokens: int
    ) -> tuple[PromptParts, tuple[ReceiptEntry, ...]]:
        after: list[Message] = []
        entries: list[ReceiptEntry] = []
        for message in parts.after:
            tokens = await self._counter.count_text(message.text, parts.request)
            candidate = Candidate(label=_label(message), tokens=tokens, reason="never_cut")
            if isinstance(message, ToolMessage) and tokens > limit_tokens:
                shorter = await self._shorter(message.text, limit_tokens, parts.request)
                candidate.shorten(shorter, await self._counter.count_text(shorter, parts.request))
                message = replace(message, text=shorter)
            after.append(message)
            entries.append(candidate.entry())
        return replace(parts, after=tuple(after)), tuple(entries)

    async def _shorter(self, text: str, limit_tokens: int, request: GenerateRequest) -> str:
        async def count(candidate: str) -> int:
            return await self._counter.count_text(candidate, request)

        return await shorten_middle(text, limit_tokens, count)

    async def _overflow(self, parts: PromptParts) -> ContextOverflowError:
        fixed = _fixed(parts)
        template_tokens, tokens = await account(fixed, self._counter)
        counted = [("template", template_tokens), *tokens.items()]
        never_cut = {str(name): count for name, count in counted if count}
        return ContextOverflowError(
            prompt_tokens=await self._count(fixed),
            context_window=self._budget.context_window,
            reserved_tokens=self._budget.reserved_tokens + self._budget.margin_tokens,
            never_cut=never_cut,
        )

    async def _choices(self, parts: PromptParts) -> dict[CuttableSection, SectionChoice]:
        async def count(text: str) -> int:
            return await self._counter.count_text(text, parts.request)

        passages = [
            Candidate(label=passage.label, tokens=await count(f"{passage.rendered(number)}\n"))
            for number, passage in enumerate(parts.passages, start=1)
        ]
        facts = [
            Candidate(label=_first_words(fact), tokens=await count(f"{rendered_fact(fact)}\n"))
            for fact in parts.facts
        ]
        summary = [
            Candidate(label="summary of earlier turns", tokens=await count(rendered_summary(parts.summary)))
        ]
        return {
            "documents": SectionChoice("documents", passages, await count(f"{documents_block(())}\n\n")),
            "memory": SectionChoice("memory", facts, await count("<memory>\n</memory>\n\n")),
            "summary": SectionChoice("summary", summary if parts.summary else [], await count("\n\n")),
            "turns": SectionChoice("turns", await self._turn_candidates(parts)),
        }

    async def _turn_candidates(self, parts: PromptParts) -> list[Candidate]:
        empty = replace(_fixed(parts), question=UserMessage(text=""), after=())
        empty_tokens = await self._count(empty)
        candidates = []
        for exchange in parts.turns:
            tokens = await self._count(replace(empty, turns=(exchange,))) - empty_tokens
            candidates.append(Candidate(label=exchange.label, tokens=max(0, tokens)))
        return candidates

    def _share(self, choices: Mapping[CuttableSection, SectionChoice], shared_tokens: int) -> None:
        spent_tokens = 0
        wanted = {name: choice.wanted_tokens for name, choice in choices.items()}
        for position, rule in enumerate(self._rules):
            limit_tokens = allowance(
                self._rules,
                position,
                shared_tokens=shared_tokens,
                spent_tokens=spent_tokens,
                wanted=wanted,
            )
            choices[rule.name].choose(limit_tokens)
            spent_tokens += choices[rule.name].used_tokens

    async def _shorten_what_is_alone(
        self, parts: PromptParts, choices: Mapping[CuttableSection, SectionChoice]
    ) -> None:
        """A section of one long text, or whose best text is too long, keeps that text without its middle."""
        for name, text in (("documents", _first(parts.passages)), ("summary", parts.summary)):
            choice = choices["documents" if name == "documents" else "summary"]
            if not text or any(one.is_in_prompt for one in choice.candidates):
                continue
            first = choice.candidates[0]
            wrapper_tokens = first.cut_tokens - await self._counter.count_text(text, parts.request)
            room = choice.limit_tokens - choice.frame_tokens - max(0, wrapper_tokens)
            shorter = await self._shorter(text, room, parts.request) if room > 0 else ""
            if shorter:
                first.tokens, first.cut_tokens = first.cut_tokens, 0
                tokens = await self._counter.count_text(shorter, parts.request)
                first.shorten(shorter, tokens + max(0, wrapper_tokens))

    def _drop_one(self, choices: Mapping[CuttableSection, SectionChoice]) -> bool:
        return any(choices[rule.name].drop_one() for rule in reversed(self._rules))

    async def _receipt(
        self,
        parts: PromptParts,
        choices: Mapping[CuttableSection, SectionChoice],
        tool_entries: tuple[ReceiptEntry, ...],
    ) -> ContextReceipt:
        template_tokens, tokens = await account(parts, self._counter)
        return ContextReceipt(
            model=parts.request.model,
            context_window=self._budget.context_window,
            reserved_tokens=self._budget.reserved_tokens,
            margin_tokens=self._budget.margin_tokens,
            total_tokens=await self._count(parts),
            template_tokens=template_tokens,
            sections=tuple(
                SectionReceipt(
                    name=name,
                    tokens=count,
                    limit_tokens=_limit(name, choices),
                    entries=_entries(name, count, parts, choices, tool_entries),
                )
                for name, count in tokens.items()
            ),
        )


def _fixed(parts: PromptParts) -> PromptParts:
    """What is never cut."""
    return replace(parts, facts=(), summary="", turns=(), passages=())


def _emptied(message: Message) -> Message:
    return replace(message, text="") if isinstance(message, ToolMessage) else message


def _first(passages: Sequence[Passage]) -> str:
    return passages[0].text if passages else ""


def _chosen(
    parts: PromptParts, choices: Mapping[CuttableSection, SectionChoice], *, keeps_order: bool
) -> tuple[PromptParts, tuple[int, ...]]:
    kept = [place for place, one in enumerate(choices["documents"].candidates) if one.is_in_prompt]
    order = tuple(kept) if keeps_order else best_at_the_ends(kept)
    shortened = {
        place: replace(parts.passages[place], text=choices["documents"].candidates[place].text)
        for place in kept
        if choices["documents"].candidates[place].text
    }
    summaries = choices["summary"].candidates
    has_summary = bool(summaries) and summaries[0].is_in_prompt
    return (
        replace(
            parts,
            facts=_kept(parts.facts, choices["memory"]),
            turns=_kept(parts.turns, choices["turns"]),
            summary=(summaries[0].text or parts.summary) if has_summary else "",
            passages=tuple(shortened.get(place, parts.passages[place]) for place in order),
        ),
        order,
    )


def _kept(texts: Sequence[_Text], choice: SectionChoice) -> tuple[_Text, ...]:
    return tuple(text for text, one in zip(texts, choice.candidates, strict=True) if one.is_in_prompt)


def _limit(name: SectionName, choices: Mapping[CuttableSection, SectionChoice]) -> int | None:
    match name:
        case "memory" | "summary" | "documents" | "turns":
            return choices[name].limit_tokens
        case "system" | "tools" | "question" | "answer":
            return None


def _entries(
    name: SectionName,
    tokens: int,
    parts: PromptParts,
    choices: Mapping[CuttableSection, SectionChoice],
    tool_entries: tuple[ReceiptEntry, ...],
) -> tuple[ReceiptEntry, ...]:
    match name:
        case "memory" | "summary" | "documents":
            return tuple(one.entry() for one in choices[name].candidates)
        case "turns":
            shown = tool_entries if parts.open_turn is None else tool_entries[:-1]
            return (*(one.entry() for one in choices[name].candidates), *shown)
        case "tools":
            return tuple(_never_cut(tool.name, 0) for tool in parts.request.tools)
        case "system" | "question" | "answer":
            return (_never_cut(name, tokens),) if tokens else ()


def _never_cut(label: str, tokens: int) -> ReceiptEntry:
    return ReceiptEntry(label=label, outcome="kept", tokens=tokens, cut_tokens=0, reason="never_cut")


def _label(message: Message) -> str:
    return f"result of {message.name}" if isinstance(message, ToolMessage) else f"{message.kind} message"


def _first_words(text: str) -> str:
    words = text.split()
    return " ".join(words[:8]) + (" …" if len(words) > 8 else "")
