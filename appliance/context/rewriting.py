"""What a question is searched for as: told in full after earlier turns, and in other words that a model writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.errors import ApplianceError, CancelledRequestError, error_of
from appliance.core.messages import AssistantMessage, Message, UserMessage
from appliance.core.requests import Deadline, GenerateRequest, SamplingParams
from appliance.core.results import GenerateFailure
from appliance.core.routing import RoutingNeeds
from appliance.gateway import Gateway
from appliance.prompts import RenderedPrompt
from appliance.retrieval.questions import Turn, Write, other_wordings, standalone_question

STAGE = "rewrite"
_QUESTION_TOKENS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Wordings:
    """The question as it is searched for, other wordings of it, and what a reader must know of both."""

    question: str
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class QuestionWriter:
    """Has questions rewritten by a model, as the stage `rewrite` of its route."""

    def __init__(self, gateway: Gateway, *, model: str, owner: str, deadline: Deadline | None = None) -> None:
        self._gateway = gateway
        self._model = model
        self._owner = owner
        self._deadline = deadline

    async def wordings(self, question: str, history: Sequence[Message], *, others: int) -> Wordings:
        """Return what to search for; a model that fails leaves the question as it was asked, and that is said."""
        told, notes = await self._told_in_full(question, history)
        if not others:
            return Wordings(question=told, notes=notes)
        try:
            written = await other_wordings(told, self._write(_QUESTION_TOKENS * others), count=others)
        except CancelledRequestError:
            raise
        except ApplianceError as exc:
            return Wordings(question=told, notes=(*notes, f"no other wordings were written: {exc.message}"))
        listed = [f"also searched for: {one}" for one in written] or ["the model wrote no other wording"]
        return Wordings(question=told, others=written, notes=(*notes, *listed))

    async def _told_in_full(self, question: str, history: Sequence[Message]) -> tuple[str, tuple[str, ...]]:
        turns = _turns_of(history)
        try:
            told = await standalone_question(question, turns, self._write(_QUESTION_TOKENS))
        except CancelledRequestError:
            raise
        except ApplianceError as exc:
            return question, (
                f"searched for the question as it was asked; telling it in full failed: {exc.message}",
            )
        return told, (f"searched for: {told}",) if turns else ()

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
