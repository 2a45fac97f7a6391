"""Writes the summary that stands for older turns, with the model that answers, in as many steps as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.context.budget import ContextBudget
from appliance.context.builder import BuiltContext, ContextBuilder
from appliance.context.counting import TokenCounter
from appliance.context.delimiting import without_tags
from appliance.context.parts import Passage
from appliance.core.errors import InvalidRequestError, MalformedOutputError, error_of
from appliance.core.messages import Message
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.core.results import GenerateFailure
from appliance.core.routing import RoutingNeeds
from appliance.gateway import Gateway
from appliance.memory.short_term import Exchange
from appliance.prompts import shipped_prompts

PROMPT_ID = "summary"
_SUMMARY_SHARE = 8
_MOST_SUMMARY_TOKENS = 256
_LEAST_SUMMARY_TOKENS = 24
_SHORTEST_HALVED = 80
_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTask:
    """Whose turns are summarised, by which model, within which window."""

    model: str
    owner: str
    context_window: int

    @property
    def summary_tokens(self) -> int:
        """How long a summary may become: a small share of the window, so that it leaves room for turns."""
        share = self.context_window // _SUMMARY_SHARE
        return max(_LEAST_SUMMARY_TOKENS, min(_MOST_SUMMARY_TOKENS, share))


class ConversationSummariser:
    """Folds exchanges into one text through a gateway."""

    def __init__(self, gateway: Gateway, counter: TokenCounter) -> None:
        self._gateway = gateway
        self._counter = counter

    async def summarise(self, task: SummaryTask, before: str, exchanges: Sequence[Exchange]) -> str:
        """Return one summary of the summary so far (or an empty text) and the exchanges.

        Raises:
            ApplianceError: the model failed, or wrote nothing.
        """
        summary, left = before, [_passage(exchange) for exchange in exchanges]
        while left:
            so_far = [Passage(text=summary, source="summary so far")] if summary else []
            taken = _leading_whole(await self._build(task, [*so_far, *left])) - len(so_far)
            if taken < 1:
                left = [*_halves(left[0]), *left[1:]]
                continue
            built = await self._build(task, [*so_far, *left[:taken]])
            summary, left = await self._write(built), left[taken:]
        return summary

    async def _build(self, task: SummaryTask, passages: Sequence[Passage]) -> BuiltContext:
        budget = ContextBudget(context_window=task.context_window, reserved_tokens=task.summary_tokens)
        builder = ContextBuilder(self._counter, budget)
        return await builder.build(_request(task), passages=passages, keeps_order=True)

    async def _write(self, built: BuiltContext) -> str:
        result = await self._gateway.generate(built.request)
        if isinstance(result, GenerateFailure):
            raise error_of(result.failure)
        text = without_tags(result.message.text)
        if not text:
            raise MalformedOutputError("the model wrote an empty summary", raw_text=result.message.text)
        return text


def _request(task: SummaryTask) -> GenerateRequest:
    return (
        shipped_prompts()
        .get(PROMPT_ID)
        .render()
        .request(
            task.model,
            owner=task.owner,
            sampling=SamplingParams(
                temperature=0.0, max_tokens=task.summary_tokens, stop=("</passage", "</documents", "<passage")
            ),
            routing=RoutingNeeds(stage="summarise"),
        )
    )


def _passage(exchange: Exchange) -> Passage:
    return Passage(text="\n\n".join(map(_spoken, exchange.messages)), source="conversation")


def _halves(passage: Passage) -> list[Passage]:
    """Cut a passage that is too long for one step in two, so that nothing of it is left out."""
    text = passage.text
    if len(text) < _SHORTEST_HALVED:
        raise InvalidRequestError(
            "the context window is too small to write a summary in",
            hint="load the model with a larger context window",
        )
    middle = text.rfind(" ", 1, len(text) // 2 + 1)
    cut = middle if middle > 0 else len(text) // 2
    return [replace(passage, text=text[:cut]), replace(passage, text=text[cut:])]


def _spoken(message: Message) -> str:
    return f"{_SPEAKERS[message.kind]}: {message.text}"


def _leading_whole(built: BuiltContext) -> int:
    entries = built.receipt.section("documents").entries
    return next((place for place, entry in enumerate(entries) if entry.outcome != "kept"), len(entries))
