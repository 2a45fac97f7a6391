"""Short-term memory: which turns of a branch a prompt holds, as pure functions that say what they folded.

A branch is cut into exchanges: a question with everything up to the next question. An exchange is kept
whole or folded whole, so a prompt never has an answer without its question or a tool result without its
call. The last exchange, which awaits the answer, is always kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, assert_never

from appliance.core.errors import ContextOverflowError, InvalidRequestError
from appliance.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from appliance.memory.turns import Summary, Turn

CountTokens = Callable[[Sequence[Message]], int]
"""Tokens that messages take in the prompt, the template's own included."""

Summarise = Callable[[str, Sequence[Message]], Awaitable[str]]
"""Writes one summary from the summary so far (or an empty text) and the messages to fold into it."""

FoldReason = Literal["over_budget", "outside_window", "summarised", "forgotten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMemory:
    """Every turn, or an error that says what does not fit."""

    kind: Literal["full"] = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """The newest exchanges that fit, at most `max_exchanges`; None leaves it to the budget."""

    max_exchanges: int | None = None
    kind: Literal["sliding_window"] = "sliding_window"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryMemory:
    """A summary of everything before the last exchange, once all of it no longer fits."""

    kind: Literal["summary"] = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridMemory:
    """Facts, a summary of older exchanges, and the newest ones word for word.

    `verbatim_share` of the budget is what the verbatim part shrinks to when exchanges must be folded; the
    rest leaves room to grow, so that the prompt's beginning stays the same for several turns.
    """

    verbatim_share: float = 0.5
    kind: Literal["hybrid"] = "hybrid"

    def __post_init__(self) -> None:
        if not 0.0 < self.verbatim_share <= 1.0:
            raise InvalidRequestError(f"verbatim_share is {self.verbatim_share}; it must be in (0, 1]")


MemoryPolicy = FullMemory | SlidingWindow | SummaryMemory | HybridMemory


def policy_named(name: Literal["full", "sliding_window", "summary", "hybrid"]) -> MemoryPolicy:
    """Return the policy of a name, with its usual values."""
    match name:
        case "full":
            return FullMemory()
        case "sliding_window":
            return SlidingWindow()
        case "summary":
            return SummaryMemory()
        case "hybrid":
            return HybridMemory()
        case _:
            assert_never(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Turns that stand or fall together, and the messages they are for a model."""

    turns: tuple[Turn, ...]
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """An exchange that the prompt does not hold word for word, and why."""

    exchange: Exchange
    tokens: int
    reason: FoldReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """What of a branch goes into the prompt. `to_summarise` must be folded into a summary first.

    `summary` is the stored one that still stands; `kept_tokens` counts the kept messages.
    """

    kept: tuple[Exchange, ...]
    folded: tuple[Folded, ...]
    to_summarise: tuple[Exchange, ...]
    summary: Summary | None
    kept_tokens: int
    budget_tokens: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The kept messages in order."""
        return tuple(message for exchange in self.kept for message in exchange.messages)


def select_turns(
    policy: MemoryPolicy,
    branch: Sequence[Turn],
    *,
    budget_tokens: int,
    count_tokens: CountTokens,
    summary: Summary | None = None,
) -> MemoryView:
    """Apply a policy to a branch whose last turn awaits an answer.

    Raises:
        ContextOverflowError: the last exchange does not fit, or with full memory the whole does not.
    """
    exchanges = [exchange for exchange in exchanges_of(branch) if exchange.messages]
    if not exchanges:
        raise InvalidRequestError("there is no turn to answer")
    costs = [count_tokens(exchange.messages) for exchange in exchanges]
    if costs[-1] > budget_tokens:
        raise ContextOverflowError(prompt_tokens=costs[-1], context_window=budget_tokens)
    match policy:
        case FullMemory():
            if sum(costs) > budget_tokens:
                raise ContextOverflowError(prompt_tokens=sum(costs), context_window=budget_tokens)
            return _view(exchanges, costs, 0, "over_budget", budget_tokens, None)
        case SlidingWindow(max_exchanges=limit):
            fitting = _first_fitting(costs, budget_tokens)
            windowed = 0 if limit is None else max(0, len(exchanges) - max(1, limit))
            reason: FoldReason = "outside_window" if windowed > fitting else "over_budget"
            return _view(exchanges, costs, max(fitting, windowed), reason, budget_tokens, None)
        case SummaryMemory():
            first = _covered(exchanges, summary)
            if sum(costs[first:]) > budget_tokens:
                first = len(exchanges) - 1
            return _view(exchanges, costs, first, "summarised", budget_tokens, summary)
        case HybridMemory(verbatim_share=share):
            first = _covered(exchanges, summary)
            if sum(costs[first:]) > budget_tokens:
                first = max(first, _first_fitting(costs, int(budget_tokens * share)))
            return _view(exchanges, costs, first, "summarised", budget_tokens, summary)
        case _:
            assert_never(policy)


def exchanges_of(branch: Sequence[Turn]) -> list[Exchange]:
    """Cut a branch into exchanges; notes and forgotten turns have no message and begin none."""
    groups: list[list[Turn]] = []
    for turn in branch:
        if (turn.role == "user" and turn.state != "forgotten") or not groups:
            groups.append([])
        groups[-1].append(turn)
    return [Exchange(turns=tuple(group), messages=tuple(_messages(group))) for group in groups]


def describe_fold(view: MemoryView) -> str:
    """Return the visible marker for what a prompt leaves out, or an empty text when it holds everything."""
    if not view.folded:
        return ""
    turns = sum(len(each.exchange.turns) for each in view.folded)
    tokens = sum(each.tokens for each in view.folded)
    how = {
        "summarised": "stand in the prompt as a summary",
        "over_budget": "are not in the prompt: they do not fit the budget",
        "outside_window": "are not in the prompt: they are older than the window",
        "forgotten": "were forgotten",
    }[view.folded[-1].reason]
    return f"{turns} earlier turns ({tokens} tokens) {how}"


def _view(
    exchanges: list[Exchange],
    costs: list[int],
    first_kept: int,
    reason: FoldReason,
    budget_tokens: int,
    summary: Summary | None,
) -> MemoryView:
    covered = _covered(exchanges, summary)
    folded = zip(exchanges[:first_kept], costs[:first_kept], strict=True)
    return MemoryView(
        kept=tuple(exchanges[first_kept:]),
        folded=tuple(Folded(exchange=each, tokens=cost, reason=reason) for each, cost in folded),
        to_summarise=tuple(exchanges[covered:first_kept]) if reason == "summarised" else (),
        summary=summary if covered else None,
        kept_tokens=sum(costs[first_kept:]),
        budget_tokens=budget_tokens,
    )


def _first_fitting(costs: list[int], budget_tokens: int) -> int:
    first = len(costs) - 1
    spent = costs[-1]
    while first > 0 and spent + costs[first - 1] <= budget_tokens:
        first -= 1
        spent += costs[first]
    return first


def _covered(exchanges: list[Exchange], summary: Summary | None) -> int:
    """Count the leading exchanges that a summary covers; the last one is never covered."""
    if summary is None:
        return 0
    for position, exchange in enumerate(exchanges[:-1]):
        if any(turn.id == summary.last_turn_id for turn in exchange.turns):
            return position + 1
    return 0


def _messages(turns: list[Turn]) -> list[Message]:
    messages: list[Message] = []
    for position, turn in enumerate(turns):
        message = turn.message() if turn.state != "forgotten" else None
        match message:
            case None:
                continue
            case AssistantMessage():
                _add_answer(messages, _without_open_calls(message, turns[position + 1 :]))
            case ToolMessage():
                if (message.call_id, message.name) in _open_calls(messages):
                    messages.append(message)
            case _:
                messages.append(message)
    return messages


def _add_answer(messages: list[Message], answer: AssistantMessage) -> None:
    last = messages[-1] if messages else None
    if not isinstance(last, AssistantMessage):
        if answer.text or answer.tool_calls:
            messages.append(answer)
        return
    joined = "\n\n".join(text for text in (last.text, answer.text) if text)
    messages[-1] = AssistantMessage(text=joined, tool_calls=last.tool_calls + answer.tool_calls)


def _without_open_calls(answer: AssistantMessage, later: list[Turn]) -> AssistantMessage:
    spoken = [turn for turn in later if turn.role != "note" and turn.state != "forgotten"]
    results = takewhile(lambda turn: turn.role == "tool", spoken)
    answered = {(turn.tool_call_id, turn.tool_name) for turn in results}
    if all((call.call_id, call.name) in answered for call in answer.tool_calls):
        return answer
    return AssistantMessage(text=answer.text)


def _open_calls(messages: list[Message]) -> set[tuple[str, str]]:
    is_open: set[tuple[str, str]] = set()
    for message in messages:
        match message:
            case AssistantMessage():
                is_open = {(call.call_id, call.name) for call in message.tool_calls}
            case ToolMessage():
                is_open.discard((message.call_id, message.name))
            case UserMessage():
                is_open = set()
            case _:
                pass
    return is_open
