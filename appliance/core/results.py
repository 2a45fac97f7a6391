"""What `generate` returns: a success or a typed failure, never both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal

from typing_extensions import TypeVar

from appliance.core.errors import Failure
from appliance.core.events import ModelIdentity
from appliance.core.handling import Handling
from appliance.core.logprobs import TokenLogprob
from appliance.core.messages import AssistantMessage
from appliance.core.usage import FinishReason, Timings, Usage

ValueT = TypeVar("ValueT", default=object, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSuccess(Generic[ValueT]):
    """An answer. `value` is what an output format asked for: parsed JSON, the checked text of a choice,
    pattern or grammar, or a validated instance of the type that was given. Free text and tool calls have none.
    `logprobs` are of the tokens of the text, where asked for.
    """

    message: AssistantMessage
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    model: ModelIdentity
    handling: Handling = field(default_factory=Handling, compare=False)
    logprobs: tuple[TokenLogprob, ...] = ()
    value: ValueT = None  # type: ignore[assignment]  # without a format, ValueT is object
    kind: Literal["success"] = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateFailure:
    """No answer, why, and what had been written by then."""

    failure: Failure
    partial: AssistantMessage = field(default_factory=AssistantMessage)
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    handling: Handling = field(default_factory=Handling, compare=False)
    kind: Literal["failure"] = "failure"


GenerateResult = GenerateSuccess | GenerateFailure
