"""A slot: the seat of one running request, from its prompt's tokens to its last delta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from appliance.core.errors import ApplianceError, Failure, MalformedOutputError, SchemaRejectedError
from appliance.core.events import (
    Completed,
    Failed,
    ModelIdentity,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.logprobs import TokenLogprob
from appliance.core.requests import GenerateRequest
from appliance.core.usage import FinishReason, Timings, Usage
from appliance.engine.constrained import LAST, ConstrainedText, Plan
from appliance.engine.detokenizer import StopFilter, Utf8Stream
from appliance.engine.logprobs import LogprobLedger, LogprobReader
from appliance.engine.native import Vocabulary
from appliance.engine.reasoning import ReasoningParser
from appliance.engine.sampler import Sampler
from appliance.engine.seam import owed_by, paid
from appliance.engine.tool_calls import CallSplitter
from appliance.structured.admission import Admitted
from appliance.structured.compiler import CompiledFormat
from appliance.structured.constraint import ConstraintFailedError
from appliance.structured.decoder import DecodeOutcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A caller that stops listening still knows what the answer cost up to the last report.
_TOKENS_BETWEEN_REPORTS = 32

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
    admitted: Admitted | None = None
    compiled: Future[CompiledFormat] | None = None
    calls: CallSplitter | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the request can begin: its output format, if it has one, is compiled or refused."""
        return self.compiled is None or self.compiled.done()


@dataclass(slots=True)
class Slot:
    """One running request.

    `tokens` are the prompt and all that was chosen; the first `evaluated` of them are in the KV cache. The prompt
    is prefilled first; then each pass evaluates what `plan` says. A request with an output format is written by
    `ConstrainedText`, from the start or from the end of the thinking on.
    """

    job: Job
    sequence: int
    evaluated: int
    cached: int
    sampler: Sampler
    vocabulary: Vocabulary
    constrain: Callable[[Slot, list[int]], ConstrainedText]
    started_s: float
    tokens: list[int] = field(init=False)
    is_generating: bool = False
    is_finished: bool = False
    forward_passes: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    first_token_s: float = 0.0
    first_delta_s: float = 0.0
    first_plan: Plan | None = None
    output_row: int = -1
    output_count: int = 0
    owed: bytes = b""
    batch_index: int = -1
    batch_tokens: int = 0
    constrained: ConstrainedText | None = None
    logprobs: LogprobReader | None = field(init=False, default=None)
    _utf8: Utf8Stream = field(default_factory=Utf8Stream)
    _stop: StopFilter = field(init=False)
    _ledger: LogprobLedger = field(default_factory=LogprobLedger)
    _read_characters: int = 0
    _shown_characters: int = 0
    _has_answer: bool = False
    _reasoning: ReasoningParser | None = None
    _reasoning_budget: int = 0
    _reported_tokens: int = 0
    _forced: list[int] = field(default_factory=list)
    _tag_tokens: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.tokens = list(self.job.prompt)
        self.owed = owed_by(self.job.request.conversation.open_turn)
        open_turn = self.job.request.conversation.open_turn
        self._stop = StopFilter(
            self.job.request.sampling.stop, before=open_turn.text if open_turn is not None else ""
        )
        top = self.job.request.sampling.top_logprobs
        self.logprobs = None if top is None else LogprobReader(self.vocabulary, top)
        if self.job.calls is not None:
            self.job.calls.logprobs_between = self._ledger.take
        if self.job.reasoning_tags is not None:
            self._start_reasoning(self.job.reasoning_tags)
        elif self.job.admitted is not None:
            self._begin_constrained(self.job.prompt)

    def _start_reasoning(self, tags: tuple[str, str]) -> None:
        self._reasoning = ReasoningParser(tags, is_open=self.job.thinking_is_open)
        asked = self.job.request.sampling.reasoning_budget
        self._reasoning_budget = self.job.room_tokens // 2 if asked is None else asked
        tag_tokens = (self.vocabulary.tokenize(tag, parse_special=True) for tag in tags)
        self._tag_tokens = frozenset(tokens[0] for tokens in tag_tokens if len(tokens) == 1)

    def _begin_constrained(self, base: list[int]) -> None:
        try:
            self.constrained = self.constrain(self, base)
        except ConstraintFailedError as error:
            self._refuse(error)
            return
        except ApplianceError as error:
            self.fail(error.to_failure())
            return
        self.tokens = list(base)
        if not self.is_generating:
            self.first_plan = self._plan_constrained(self.constrained)

    @property
    def pending(self) -> int:
        """Tokens of the prompt that are not yet in the KV cache."""
        return len(self.job.prompt) - self.evaluated

    def plan(self) -> Plan | None:
        """What the next pass evaluates; None when the answer ended without one."""
        if self.constrained is not None:
            return self._plan_constrained(self.constrained)
        return Plan(self.evaluated, self.tokens[self.evaluated :], LAST)

    def _plan_constrained(self, constrained: ConstrainedText) -> Plan | None:
        try:
            plan = constrained.plan()
        except ConstraintFailedError as error:
            self._refuse(error)
            return None
        if plan is None:
            self._settle(constrained, constrained.outcome())
            return None
        self.tokens[plan.position :] = plan.tokens
        return plan

    def take_rows(self, rows: Sequence[NDArray[np.float32]]) -> None:
        """Act on the logits of a constrained text's plan."""
        assert self.constrained is not None
        self._note_first_token()
        try:
            outcome = self.constrained.take(rows)
        except ConstraintFailedError as error:
            self._refuse(error)
            return
        self._settle(self.constrained, outcome)
        written = self.constrained.counts[0]
        if not self.is_finished and written >= self._reported_tokens + _TOKENS_BETWEEN_REPORTS:
            self._reported_tokens = written
            self.job.emit(UsageReported(usage=self.usage()))

    def _settle(self, constrained: ConstrainedText, outcome: DecodeOutcome) -> None:
        try:
            self._show_constrained(outcome)
        except MalformedOutputError as error:
            self.fail(error.to_failure())
            return
        if outcome.state == "finished":
            has_called = self.job.calls is not None and self.job.calls.call_count > 0
            is_whole = outcome.finish_reason == "stop"
            self.finish("tool_calls" if has_called and is_whole else outcome.finish_reason)
        elif outcome.state == "failed":
            self.fail(constrained.error(outcome).to_failure())

    def _refuse(self, error: ConstraintFailedError) -> None:
        """A grammar can reach its limits only here, with the model's own vocabulary."""
        refusal = SchemaRejectedError(f"the format is too large to follow: {error.message}", hint=error.hint)
        self.fail(refusal.to_failure())

    def show_forced(self) -> None:
        """Show what will be written whatever the logits say; it need not wait for the pass that evaluates it."""
        if self.constrained is not None and not (self.is_generating or self.is_finished):
            self._show_constrained(self.constrained.outcome())

    def _show_constrained(self, outcome: DecodeOutcome) -> None:
        calls = self.job.calls
        if calls is None:
            if outcome.text:
                self._send(TextDelta(text=outcome.text, logprobs=outcome.logprobs))
            return
        for logprob in outcome.logprobs:
            self._ledger.add(logprob)
        for event in calls.push(outcome.text):
            self._send(event)
        if outcome.state == "finished":
            for event in calls.flush():
                self._send(event)

    def standing_tokens(self) -> list[int]:
        """Tokens in the KV cache that belong to the answer: what was taken back does not count."""
        in_cache = self.tokens[: self.evaluated]
        if self.constrained is None:
            return in_cache
        standing = self.constrained.tokens
        same = next((i for i, (a, b) in enumerate(zip(in_cache, standing, strict=False)) if a != b), None)
        return in_cache[: min(len(in_cache), len(standing)) if same is None else same]

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

    def push_token(self, token: int, logprob: TokenLogprob | None = None) -> None:
        """Take a chosen token: show its text, and finish where the answer ends."""
        self._note_first_token()
        if self.vocabulary.is_end(token):
            self.finish("stop")
            return
        self.tokens.append(token)
        self.output_tokens += 1
        if self._reasoning is not None and self._reasoning.is_thinking:
            self.reasoning_tokens += 1
        if logprob is not None and self.job.admitted is None:
            self._ledger.add(logprob)
        read_piece = self.vocabulary.special_piece if token in self._tag_tokens else self.vocabulary.piece
        self._show(self._utf8.push(self._without_owed(read_piece(token))))
        if self._stop.is_stopped:
            self.finish("stop")
        elif self.output_tokens >= self.job.room_tokens:
            self.finish("length")
        elif self.job.admitted is not None:
            self._constrain_after_thinking()
        if not self.is_finished and self.output_tokens % _TOKENS_BETWEEN_REPORTS == 1:
            self.job.emit(UsageReported(usage=self.usage()))

    def _without_owed(self, piece: bytes) -> bytes:
        if not self.owed:
            return piece
        new, left = paid(self.owed, piece)
        self._read_characters += len(self.owed) - len(left)
        self.owed = left
        return new

    def _constrain_after_thinking(self) -> None:
        """Begin the constrained text when the thinking is over, or when it turns out that there is none."""
        assert self._reasoning is not None
        if not self._reasoning.is_decided or self._reasoning.is_thinking or self._forced:
            return
        if not self._reasoning.has_thought:
            self.output_tokens = 0
            self._begin_constrained(self.job.prompt)
        else:
            self._begin_constrained(self.tokens)

    def _note_first_token(self) -> None:
        if not self.is_generating:
            self.is_generating = True
            self.first_token_s = perf_counter()

    def _show(self, text: str) -> None:
        if not text:
            return
        self._read_characters += len(text)
        if self._reasoning is not None:
            split = self._reasoning.push(text)
            if split.reasoning:
                self._send(ReasoningDelta(text=split.reasoning))
            text = "" if self.job.admitted is not None else split.answer
        self._show_answer(text)

    def _show_answer(self, text: str) -> None:
        """Show what of the answer no stop string can begin in, with the log-probabilities of its tokens."""
        if text and not self._has_answer:
            self._has_answer = True
            self._shown_characters = self._read_characters - len(text)
        self._send_answer(self._stop.push(text))

    def _send_answer(self, text: str) -> None:
        if not text:
            return
        start = self._shown_characters
        self._shown_characters += len(text)
        self._send(TextDelta(text=text, logprobs=self._ledger.take(start, self._shown_characters)))

    def _send(self, event: TextDelta | ReasoningDelta | ToolCallDelta) -> None:
        if self.first_delta_s == 0.0:
            self.first_delta_s = perf_counter()
        self.job.emit(event)

    def finish(self, reason: FinishReason) -> None:
        """End the answer for a reason; what was held back is shown where it belongs to the answer."""
        if not self._stop.is_stopped:
            self._flush(is_whole=reason == "stop")
        self.is_finished = True
        self.job.emit(
            Completed(
                finish_reason=reason,
                usage=self.usage(),
                timings=self.timings(),
                model=ModelIdentity(provider="llama_cpp", name=self.job.request.model),
            )
        )

    def _flush(self, *, is_whole: bool) -> None:
        """Show what was held back. Half a character at the end of an answer that was cut off is no text yet:
        who goes on with the answer lets the model write it whole.
        """
        if self.job.admitted is not None:
            return
        if is_whole:
            self._show(self._utf8.flush())
        if self._reasoning is not None:
            rest = self._reasoning.flush()
            if rest.reasoning:
                self._send(ReasoningDelta(text=rest.reasoning))
            self._show_answer(rest.answer)
        self._send_answer(self._stop.flush())

    def fail(self, failure: Failure) -> None:
        """End the request with a failure."""
        self.is_finished = True
        self.job.emit(Failed(failure=failure, usage=self.usage(), timings=self.timings()))

    def usage(self) -> Usage:
        """Tokens so far."""
        written = passes = drafted = accepted = 0
        if self.constrained is not None:
            written, passes, drafted, accepted = self.constrained.counts
        return Usage(
            input_tokens=len(self.job.prompt),
            cached_tokens=self.cached,
            output_tokens=self.output_tokens + written,
            reasoning_tokens=self.reasoning_tokens,
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            forward_passes=self.forward_passes + passes,
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
