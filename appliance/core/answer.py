"""An answer as it comes together from the events of one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from appliance.core.errors import CancelledRequestError, Failure, InternalError, InvalidRequestError
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import AssistantMessage, ToolCall
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess
from appliance.core.usage import Usage


@dataclass(slots=True)
class _CallInProgress:
    call_id: str
    name: str
    arguments_json: str


class AnswerInProgress:
    """Collects events; tells what has been written so far at any time, and the result at the end."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._calls: dict[int, _CallInProgress] = {}
        self._usage = Usage()
        self._terminal: Completed | Failed | None = None

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The thinking so far."""
        return "".join(self._reasoning)

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """The log-probabilities of the text's tokens so far, where asked for."""
        return tuple(self._logprobs)

    @property
    def usage(self) -> Usage:
        """Tokens as last reported."""
        return self._usage

    @property
    def is_finished(self) -> bool:
        """Whether the terminal event has come."""
        return self._terminal is not None

    def add(self, event: StreamEvent) -> None:
        """Take the next event of the stream."""
        match event:
            case TextDelta():
                self._text.append(event.text)
                self._logprobs.extend(event.logprobs)
            case ReasoningDelta():
                self._reasoning.append(event.text)
            case ToolCallDelta():
                self._add_call(event)
            case PrefillProgress():
                self._usage = Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens)
            case UsageReported():
                self._usage = event.usage
            case LoadProgress():
                pass
            case Completed() | Failed():
                self._terminal = event
                self._usage = event.usage
            case _:
                assert_never(event)

    def partial(self) -> AssistantMessage:
        """Return text and thinking so far; unfinished tool calls are left out."""
        return AssistantMessage(text=self.text, reasoning=self.reasoning)

    def message(self) -> AssistantMessage:
        """Return what has been written so far.

        Raises:
            InvalidRequestError: the model gave two tool calls the same id.
        """
        calls = (
            ToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json)
            for _, call in sorted(self._calls.items())
        )
        return AssistantMessage(text=self.text, reasoning=self.reasoning, tool_calls=tuple(calls))

    def result(self) -> GenerateResult:
        """Return the outcome; a stream without a terminal event and a cancelled one are failures."""
        match self._terminal:
            case None:
                return self._failure(InternalError("the stream ended without a terminal event").to_failure())
            case Failed(failure=failure):
                return self._failure(failure)
            case Completed(finish_reason="cancelled"):
                return self._failure(CancelledRequestError("the request was cancelled").to_failure())
            case Completed(finish_reason="error"):
                return self._failure(
                    InternalError("the provider ended with an error it did not name").to_failure()
                )
            case Completed():
                return self._success(self._terminal)
            case _:
                assert_never(self._terminal)

    def _success(self, completed: Completed) -> GenerateResult:
        try:
            message = self.message()
        except InvalidRequestError as exc:
            return self._failure(Failure(kind="malformed_output", message=exc.message, retryable=True))
        return GenerateSuccess(
            message=message,
            finish_reason=completed.finish_reason,
            usage=completed.usage,
            timings=completed.timings,
            model=completed.model,
            handling=completed.handling,
            logprobs=self.logprobs,
        )

    def _failure(self, failure: Failure) -> GenerateFailure:
        partial = self.partial()
        if self._terminal is None:
            return GenerateFailure(failure=failure, partial=partial, usage=self._usage)
        return GenerateFailure(
            failure=failure,
            partial=partial,
            usage=self._usage,
            timings=self._terminal.timings,
            handling=self._terminal.handling,
        )

    def _add_call(self, delta: ToolCallDelta) -> None:
        call = self._calls.setdefault(delta.index, _CallInProgress(delta.call_id, delta.name, ""))
        call.call_id = call.call_id or delta.call_id
        call.name = call.name or delta.name
        call.arguments_json += delta.arguments_delta
