"""A slot: the seat of one running request, from its prompt's tokens to its last delta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from appliance.core.errors import Failure
from appliance.core.events import (
    Completed,
    Failed,
    ModelIdentity,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
)
from appliance.core.requests import GenerateRequest
from appliance.core.usage import FinishReason, Timings, Usage
from appliance.engine.detokenizer import StopFilter, Utf8Stream
from appliance.engine.native import Vocabulary
from appliance.engine.reasoning import ReasoningParser
from appliance.engine.sampler import Sampler

Emit = Callable[[StreamEvent], None]


@dataclass(slots=True)
class Job:
    """A request that waits: its prompt as tokens and where its events go."""

    id: int
    request: GenerateRequest
    prompt: list[int]
    room_tokens: int
    emit: Emit
    arrived_s: float
    thinking_is_open: bool = False
    reasoning_tags: tuple[str, str] | None = None


@dataclass(slots=True)
class Slot:
    """One running request.

    `tokens` are the prompt and all that was chosen; the first `evaluated` of them are in the KV cache. The slot
    prefills while more than the last token is missing, and decodes otherwise.
    """

    job: Job
    sequence: int
    evaluated: int
    cached: int
    sampler: Sampler
    vocabulary: Vocabulary
    started_s: float
    tokens: list[int] = field(init=False)
    is_generating: bool = False
    is_finished: bool = False
    forward_passes: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    first_token_s: float = 0.0
    first_delta_s: float = 0.0
    output_row: int = -1
    batch_index: int = -1
    batch_tokens: int = 0
    _utf8: Utf8Stream = field(default_factory=Utf8Stream)
    _stop: StopFilter = field(init=False)
    _reasoning: ReasoningParser | None = None
    _reasoning_budget: int = 0
    _forced: list[int] = field(default_factory=list)
    _tag_tokens: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.tokens = list(self.job.prompt)
        self._stop = StopFilter(self.job.request.sampling.stop)
        if self.job.reasoning_tags is not None:
            self._start_reasoning(self.job.reasoning_tags)

    def _start_reasoning(self, tags: tuple[str, str]) -> None:
        self._reasoning = ReasoningParser(tags, is_open=self.job.thinking_is_open)
        asked = self.job.request.sampling.reasoning_budget
        self._reasoning_budget = self.job.room_tokens // 2 if asked is None else asked
        tag_tokens = (self.vocabulary.tokenize(tag, parse_special=True) for tag in tags)
        self._tag_tokens = frozenset(tokens[0] for tokens in tag_tokens if len(tokens) == 1)

    @property
    def pending(self) -> int:
        """Tokens that are known and not yet in the KV cache."""
        return len(self.tokens) - self.evaluated

    def take_forced(self) -> int | None:
        """The next token where the answer's course is set, not sampled."""
        if self._forced:
            return self._forced.pop(0)
        if self._must_close_thinking():
            assert self.job.reasoning_tags is not None
            closing = "\n" + self.job.reasoning_tags[1] + "\n\n"
            self._forced = self.vocabulary.tokenize(closing, parse_special=True)
            return self._forced.pop(0)
        return None

    def _must_close_thinking(self) -> bool:
        return (
            self._reasoning is not None
            and self._reasoning.is_thinking
            and self.reasoning_tokens >= self._reasoning_budget
        )

    def report_prefill(self) -> None:
        """Say how much of the prompt is in the KV cache."""
        self.job.emit(
            PrefillProgress(
                processed_tokens=min(self.evaluated, len(self.job.prompt)),
                total_tokens=len(self.job.prompt),
                cached_tokens=self.cached,
            )
        )

    def push_token(self, token: int) -> None:
        """Take a chosen token: show its text, and finish where the answer ends."""
        now_s = perf_counter()
        if not self.is_generating:
            self.is_generating = True
            self.first_token_s = now_s
        if self.vocabulary.is_end(token):
            self.finish("stop")
            return
        self.tokens.append(token)
        self.output_tokens += 1
        if self._reasoning is not None and self._reasoning.is_thinking:
            self.reasoning_tokens += 1
        read_piece = self.vocabulary.special_piece if token in self._tag_tokens else self.vocabulary.piece
        self._show(self._utf8.push(read_piece(token)))
        if self._stop.is_stopped:
            self.finish("stop")
        elif self.output_tokens >= self.job.room_tokens:
            self.finish("length")

    def _show(self, text: str) -> None:
        if not text:
            return
        if self._reasoning is not None:
            split = self._reasoning.push(text)
            if split.reasoning:
                self._send(ReasoningDelta(text=split.reasoning))
            text = split.answer
        shown = self._stop.push(text)
        if shown:
            self._send(TextDelta(text=shown))

    def _send(self, event: TextDelta | ReasoningDelta) -> None:
        if self.first_delta_s == 0.0:
            self.first_delta_s = perf_counter()
        self.job.emit(event)

    def finish(self, reason: FinishReason) -> None:
        """End the answer for a reason; what was held back is shown where it belongs to the answer."""
        if not self._stop.is_stopped:
            self._flush()
        self.is_finished = True
        self.job.emit(
            Completed(
                finish_reason=reason,
                usage=self.usage(),
                timings=self.timings(),
                model=ModelIdentity(provider="llama_cpp", name=self.job.request.model),
            )
        )

    def _flush(self) -> None:
        self._show(self._utf8.flush())
        if self._reasoning is not None:
            rest = self._reasoning.flush()
            if rest.reasoning:
                self._send(ReasoningDelta(text=rest.reasoning))
            if shown := self._stop.push(rest.answer):
                self._send(TextDelta(text=shown))
        if shown := self._stop.flush():
            self._send(TextDelta(text=shown))

    def fail(self, failure: Failure) -> None:
        """End the request with a failure."""
        self.is_finished = True
        self.job.emit(Failed(failure=failure, usage=self.usage(), timings=self.timings()))

    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(
            input_tokens=len(self.job.prompt),
            cached_tokens=self.cached,
            output_tokens=self.output_tokens,
            reasoning_tokens=self.reasoning_tokens,
            forward_passes=self.forward_passes,
        )

    def timings(self) -> Timings:
        """Seconds so far."""
        now_s = perf_counter()
        first_token_s = self.first_token_s or now_s
        return Timings(
            queue_s=self.started_s - self.job.arrived_s,
            prefill_s=first_token_s - self.started_s,
            decode_s=now_s - first_token_s,
            ttft_s=self.first_delta_s - self.job.arrived_s if self.first_delta_s else 0.0,
            total_s=now_s - self.job.arrived_s,
        )
