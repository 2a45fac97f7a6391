"""The events of a stream as a closed union. A stream ends with exactly one `Completed` or `Failed`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from appliance.core.errors import Failure
from appliance.core.handling import Handling
from appliance.core.logprobs import TokenLogprob
from appliance.core.usage import FinishReason, Timings, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """The provider and model that really answered; `digest` is the sha256 of the weights."""

    provider: str
    name: str
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """The model is being loaded; `fraction` is between 0 and 1."""

    fraction: float
    kind: Literal["load_progress"] = "load_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillProgress:
    """Prompt tokens in the KV cache so far, of all, and how many of them were reused."""

    processed_tokens: int
    total_tokens: int
    cached_tokens: int
    kind: Literal["prefill_progress"] = "prefill_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the answer, whole characters only. `logprobs` are of the tokens that begin in it, where asked for;
    the bytes of the last one may end in the next piece.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    kind: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """A piece of the model's thinking."""

    text: str
    kind: Literal["reasoning_delta"] = "reasoning_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A piece of a tool call; `index` tells calls of one answer apart."""

    index: int
    call_id: str
    name: str
    arguments_delta: str
    kind: Literal["tool_call_delta"] = "tool_call_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """Tokens so far."""

    usage: Usage
    kind: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The answer is whole, or ended for the stated reason. `handling` takes no part in comparison."""

    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    model: ModelIdentity
    handling: Handling = field(default_factory=Handling, compare=False)
    kind: Literal["completed"] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The request failed; what was streamed before stands, and `usage` counts it."""

    failure: Failure
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    handling: Handling = field(default_factory=Handling, compare=False)
    kind: Literal["failed"] = "failed"


StreamEvent = (
    LoadProgress
    | PrefillProgress
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | UsageReported
    | Completed
    | Failed
)
