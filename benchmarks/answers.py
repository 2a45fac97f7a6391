"""What the load client sends and what it learns: one request, one answer with its times, and the seam between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.metrics import RequestTrace

# Where the time before the first delta went, in the order in which it passes.
PHASES = ("queue_s", "load_s", "retrieve_s", "prefill_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One request of a workload. Token counts are what its answer is held against.

    `key` names its owner where the target tells owners apart: requests of unlike keys share no cached prefix there.
    """

    number: int
    text: str
    input_tokens: int
    output_tokens: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. Counts are None where the target does not say them; `failure` is empty where it succeeded.

    `phases` holds what the target itself says of the time before the first delta, in seconds. Where the target counts
    no output tokens, the trace counts chunks, until the text is counted here; only then it is kept.
    """

    request: LoadRequest
    trace: RequestTrace
    input_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str = ""
    phases: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    does_target_count: bool = True
    is_counted_here: bool = False
    text: str = ""

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended well and brought text."""
        return not self.failure and bool(self.trace.chunk_times_s)


class Target(Protocol):
    """What requests are sent to."""

    @property
    def name(self) -> str:
        """Its name in records."""
        ...

    async def answer(self, request: LoadRequest) -> Answer:
        """Send a request and receive its whole answer; failures are part of the answer."""
        ...

    async def count_tokens(self, text: str) -> int:
        """Count the tokens of a prompt with this text, its template included.

        Raises:
            ApplianceError: nothing here counts tokens.
        """
        ...

    async def count_output(self, text: str) -> int | None:
        """Count the tokens of an answer's text; None where nothing here does."""
        ...
