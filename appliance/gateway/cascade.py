"""Let the next candidate answer when a validator or the caller's grader refuses the answer of the one before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from inspect import isawaitable
from typing import Protocol

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import ApplianceError, InvalidRequestError, MalformedOutputError
from appliance.core.events import Completed, Failed, StreamEvent
from appliance.core.results import GenerateSuccess
from appliance.gateway.adding import Spent
from appliance.gateway.admission import sharing_the_seat
from appliance.gateway.attempts import Attempts
from appliance.gateway.holding import HeldEvents

Grader = Callable[[GenerateSuccess], str | Awaitable[str]]
"""Says why an answer is not good enough; an empty text accepts it."""


class Answer(Protocol):
    """A judged answer, repaired or not."""

    @property
    def value(self) -> object | None:
        """The value of the answer, once its events have ended."""
        ...

    def events(self) -> AsyncGenerator[StreamEvent]:
        """Yield the events; `Completed` means valid."""
        ...


class CascadedAnswer:
    """Answers of one candidate after another until one stands; nothing of a refused one is shown.

    The last candidate's answer is not held back where no grader could refuse it.
    """

    def __init__(self, answer: Callable[[], Answer], attempts: Attempts, grader: Grader | None) -> None:
        self._answer = answer
        self._attempts = attempts
        self._grader = grader
        self._spent = Spent()
        self.value: object | None = None

    async def events(self) -> AsyncGenerator[StreamEvent]:
        """Yield progress, then the answer that stands or the last one's failure."""
        while self._grader is not None or self._attempts.can_escalate:
            answer = self._answer()
            held = HeldEvents(answer.events(), is_thinking_shown=False)
            async with aclosing(held.progress()) as events:
                async for event in events:
                    yield self._spent.added_to(event)
            ending = await self._graded(held, answer.value)
            if not self._is_refused(ending) or not self._attempts.can_escalate:
                self.value = answer.value
                for event in (*(() if self._is_refused(ending) else held.deltas), ending):
                    yield self._spent.added_to(event)
                return
            self._spent = Spent.on(self._spent.added_to_ending(ending))
            self._attempts.escalate()
        async with aclosing(self._last()) as events:
            async for event in events:
                yield event

    async def _last(self) -> AsyncGenerator[StreamEvent]:
        answer = self._answer()
        async with aclosing(answer.events()) as events:
            async for event in events:
                self.value = answer.value
                yield self._spent.added_to(event)

    def _is_refused(self, ending: Completed | Failed) -> bool:
        return isinstance(ending, Failed) and ending.failure.kind == "malformed_output"

    async def _graded(self, held: HeldEvents, value: object | None) -> Completed | Failed:
        ending = held.ending
        if (
            self._grader is None
            or isinstance(ending, Failed)
            or ending.finish_reason in ("cancelled", "error")
        ):
            return ending
        answer = AnswerInProgress()
        for event in (*held.deltas, ending):
            answer.add(event)
        result = answer.result()
        assert isinstance(result, GenerateSuccess)
        try:
            reason = await _reason(self._grader, replace(result, value=value))
        except ApplianceError as error:
            return Failed(failure=error.to_failure(), usage=ending.usage, timings=ending.timings)
        if not reason:
            return ending
        self._attempts.refuse(reason)
        refused = MalformedOutputError(f"the answer was refused: {reason}", raw_text=answer.text)
        return Failed(failure=refused.to_failure(), usage=ending.usage, timings=ending.timings)


async def _reason(grader: Grader, result: GenerateSuccess) -> str:
    try:
        with sharing_the_seat():
            said = grader(result)
            return await said if isawaitable(said) else said
    except ApplianceError:
        raise
    except Exception as exc:  # the caller's own code
        raise InvalidRequestError(
            f"the grader failed with {type(exc).__name__}: {exc}",
            hint="return why an answer is refused, or an empty text",
        ) from exc
