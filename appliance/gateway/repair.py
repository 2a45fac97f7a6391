"""Judge an answer at its end; let one that breaks the caller's rules be written once more, told what is wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import fields, replace

from appliance.core.answer import AnswerInProgress
from appliance.core.errors import ApplianceError, Failure, InvalidRequestError, MalformedOutputError
from appliance.core.events import Completed, Failed, StreamEvent, TextDelta, UsageReported
from appliance.core.messages import AssistantMessage, Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.untrusted import delimited
from appliance.core.usage import Timings, Usage
from appliance.gateway.judge import Judge

Attempt = Callable[[GenerateRequest], AsyncGenerator[StreamEvent]]

_LONGEST_PROBLEM = 2000


class JudgedAnswer:
    """One attempt whose end is judged. After the last event, `value` and `error` say what came of it."""

    def __init__(self, judge: Judge, request: GenerateRequest, attempt: Attempt) -> None:
        self._judge = judge
        self._request = request
        self._attempt = attempt
        self._answer = AnswerInProgress()
        self.value: object | None = None
        self.error: MalformedOutputError | None = None

    @property
    def text(self) -> str:
        """What was written."""
        return self._answer.text

    async def events(self) -> AsyncGenerator[StreamEvent]:
        """Yield the events; an answer that is not what was asked for ends with `Failed`."""
        async with aclosing(self._attempt(self._request)) as events:
            async for event in events:
                self._answer.add(event)
                yield await self._ending(event)

    async def _ending(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, Completed):
            return await self._judged(event)
        if isinstance(event, Failed) and event.failure.kind == "context_overflow" and self._judge.format_text:
            return replace(event, failure=self._with_way_out(event.failure))
        return event

    def _with_way_out(self, failure: Failure) -> Failure:
        characters = len(self._judge.format_text)
        way_out = f"leave the schema out of the prompt, where it takes {characters} characters"
        return replace(failure, hint=f"{failure.hint}, or {way_out}")

    async def _judged(self, completed: Completed) -> Completed | Failed:
        if completed.finish_reason in ("cancelled", "error"):
            return completed
        try:
            self.value = await self._judge.check(self._message())
        except MalformedOutputError as error:
            self.error = error
            return _failed(error, completed)
        except ApplianceError as error:
            return _failed(error, completed)
        return completed

    def _message(self) -> AssistantMessage:
        try:
            return self._answer.message()
        except InvalidRequestError as exc:
            raise MalformedOutputError(exc.message, raw_text=self._answer.text) from exc


class RepairedAnswer:
    """Up to two attempts. Text is held back until it is valid, because a second attempt would replace it.

    The second request is the first one with the answer and what is wrong with it; it is never the same.
    """

    def __init__(self, judge: Judge, attempt: Attempt) -> None:
        self._judge = judge
        self._attempt = attempt
        self.value: object | None = None

    async def events(self) -> AsyncGenerator[StreamEvent]:
        """Yield progress, then the text of the valid answer, then one terminal event."""
        first = _HeldAnswer(JudgedAnswer(self._judge, self._judge.told, self._attempt))
        async with aclosing(first.progress()) as events:
            async for event in events:
                yield event
        request = self._repair_request(first.answer)
        if request is None:
            self.value = first.answer.value
            for event in first.rest():
                yield event
            return
        second = _HeldAnswer(JudgedAnswer(self._judge, request, self._attempt))
        async with aclosing(second.progress()) as events:
            async for event in events:
                yield _added(event, first.ending)
        self.value = second.answer.value
        for event in self._outcome(first, second):
            yield event

    def _repair_request(self, answer: JudgedAnswer) -> GenerateRequest | None:
        if answer.error is None:
            return None
        told = self._judge.told
        turns = (AssistantMessage(text=answer.text), UserMessage(text=_complaint(answer.error.message)))
        try:
            return replace(told, conversation=Conversation((*told.conversation.messages, *turns)))
        except InvalidRequestError:
            return None

    def _outcome(self, first: _HeldAnswer, second: _HeldAnswer) -> list[StreamEvent]:
        ending = second.ending
        has_no_room = isinstance(ending, Failed) and ending.failure.kind == "context_overflow"
        if not has_no_room and second.answer.error is None:
            return [_added(event, first.ending) for event in second.rest()]
        told = (first if has_no_room else second).answer
        assert told.error is not None
        why = "there was no room to ask again" if has_no_room else "so it was after one attempt to repair it"
        error = MalformedOutputError(
            f"{told.error.message} ({why})", raw_text=told.error.raw_text, hint=told.error.hint
        )
        return [_added(_failed(error, ending), first.ending)]


class _HeldAnswer:
    """Lets progress through and holds text and ending back."""

    def __init__(self, answer: JudgedAnswer) -> None:
        self.answer = answer
        self._text: list[StreamEvent] = []
        self._ending: Completed | Failed | None = None

    @property
    def ending(self) -> Completed | Failed:
        assert self._ending is not None
        return self._ending

    async def progress(self) -> AsyncGenerator[StreamEvent]:
        async with aclosing(self.answer.events()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    self._text.append(event)
                elif isinstance(event, Completed | Failed):
                    self._ending = event
                else:
                    yield event

    def rest(self) -> list[StreamEvent]:
        """Text and ending; a text that is not valid is kept in the failure alone."""
        return [*(self._text if self.answer.error is None else ()), self.ending]


def _complaint(message: str) -> str:
    problems = delimited("problems", [message[:_LONGEST_PROBLEM]])
    return (
        "That answer breaks rules. What is wrong with it stands between the marks, as data:\n"
        f"{problems}\nWrite the whole answer again, corrected, in the same form, and nothing else."
    )


def _failed(error: ApplianceError, ending: Completed | Failed) -> Failed:
    return Failed(failure=error.to_failure(), usage=ending.usage, timings=ending.timings)


def _added(event: StreamEvent, before: Completed | Failed) -> StreamEvent:
    """Count the attempt before as well."""
    if isinstance(event, UsageReported):
        return replace(event, usage=_sum_of_usage(before.usage, event.usage))
    if not isinstance(event, Completed | Failed):
        return event
    usage, timings = _sum_of_usage(before.usage, event.usage), event.timings
    summed = {name.name: getattr(before.timings, name.name) + getattr(timings, name.name)
              for name in fields(Timings)}  # fmt: skip
    # The caller's first delta is the second attempt's.
    summed["ttft_s"] = before.timings.total_s + timings.ttft_s if timings.ttft_s else 0.0
    return replace(event, usage=usage, timings=Timings(**summed))


def _sum_of_usage(first: Usage, second: Usage) -> Usage:
    return Usage(**{name.name: getattr(first, name.name) + getattr(second, name.name)
                    for name in fields(Usage)})  # fmt: skip
