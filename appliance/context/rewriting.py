"""What a question is searched for as: told in full after earlier turns, and in other words that a model writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from appliance.core.errors import ApplianceError, CancelledRequestError, error_of
from appliance.core.messages import AssistantMessage, Message, UserMessage
from appliance.core.requests import Deadline, GenerateRequest, SamplingParams
from appliance.core.results import GenerateFailure
from appliance.core.routing import RoutingNeeds
from appliance.gateway import Gateway
from appliance.prompts import RenderedPrompt
from appliance.retrieval.follow_up import told_in_full
from appliance.retrieval.questions import Turn, Write, other_wordings, standalone_question

STAGE = "rewrite"
RewrittenBy = Literal["", "code", "model"]
_QUESTION_TOKENS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Wordings:
    """The question as it is searched for, other wordings of it, and what a reader must know of both.

    `rewritten_by` says who told a follow-up in full; empty where the question is the one that was asked.
    """

    question: str
    rewritten_by: RewrittenBy = ""
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class QuestionWriter:
    """Tells follow-ups in full by code, or by the model that the route names for the stage `rewrite`.

    Small models rewrite worse than not at all, so that one is asked only where somebody named it.
    """

    def __init__(self, gateway: Gateway, *, model: str, owner: str, deadline: Deadline | None = None) -> None:
        self._gateway = gateway
        self._model = model
        self._owner = owner
        self._deadline = deadline

    async def wordings(self, question: str, history: Sequence[Message], *, others: int) -> Wordings:
        """Return what to search for; a model that fails leaves the question to code, and that is said."""
        told = await self._told_in_full(question, history)
        if not others:
            return told
        try:
            written = await other_wordings(
                told.question, self._write(_QUESTION_TOKENS * others), count=others
            )
        except CancelledRequestError:
            raise
        except ApplianceError as exc:
            return replace(told, notes=(*told.notes, f"no other wordings were written: {exc.message}"))
        listed = [f"also searched for: {one}" for one in written] or ["the model wrote no other wording"]
        return replace(told, others=(*told.others, *written), notes=(*told.notes, *listed))

    async def _told_in_full(self, question: str, history: Sequence[Message]) -> Wordings:
        turns = _turns_of(history)
        if not turns:
            return Wordings(question=question)
        if not self._gateway.has_stage(self._model, STAGE):
            return _told_by_code(question, turns)
        try:
            told = await standalone_question(question, turns, self._write(_QUESTION_TOKENS))
        except CancelledRequestError:
            raise
        except ApplianceError as exc:
            by_code = _told_by_code(question, turns)
            return replace(
                by_code, notes=(f"telling the question in full failed: {exc.message}", *by_code.notes)
            )
        if told == question:
            return Wordings(question=question)
        # What a model wrote may be about something else: the user's own words are searched for as well.
        return Wordings(
            question=told,
            rewritten_by="model",
            others=(question,),
            notes=(f"searched for: {told}", f"also searched for: {question}"),
        )

    def _write(self, max_tokens: int) -> Write:
        async def write(prompt: RenderedPrompt) -> str:
            result = await self._gateway.generate(self._request(prompt, max_tokens))
            if isinstance(result, GenerateFailure):
                raise error_of(result.failure)
            text = result.message.text
            # A line that the bound cut asks for something else than it would have.
            return text.rpartition("\n")[0] if result.finish_reason == "length" else text

        return write

    def _request(self, prompt: RenderedPrompt, max_tokens: int) -> GenerateRequest:
        return prompt.request(
            self._model,
            owner=self._owner,
            sampling=SamplingParams(temperature=0.0, max_tokens=max_tokens),
            deadline=self._deadline,
            routing=RoutingNeeds(stage=STAGE),
        )


def _turns_of(history: Sequence[Message]) -> list[Turn]:
    return [
        Turn(role=message.kind, text=message.text)
        for message in history
        if isinstance(message, UserMessage | AssistantMessage) and message.text.strip()
    ]


def _told_by_code(question: str, turns: Sequence[Turn]) -> Wordings:
    told = told_in_full(question, [turn.text for turn in turns if turn.role == "user"])
    if told == question:
        return Wordings(question=question)
    return Wordings(question=told, rewritten_by="code", notes=(f"searched for: {told}",))
