"""What `generate` returns: a success or a typed failure, never both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from appliance.core.errors import Failure
from appliance.core.events import ModelIdentity
from appliance.core.messages import AssistantMessage
from appliance.core.usage import FinishReason, Timings, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSuccess:
    """An answer. `value` is the validated object when an output format asked for one."""

    message: AssistantMessage
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    model: ModelIdentity
    value: object | None = None
    kind: Literal["success"] = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateFailure:
    """No answer, why, and what had been written by then."""

    failure: Failure
    partial: AssistantMessage = field(default_factory=AssistantMessage)
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    kind: Literal["failure"] = "failure"


GenerateResult = GenerateSuccess | GenerateFailure
