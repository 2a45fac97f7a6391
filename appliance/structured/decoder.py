"""Drives one constrained sequence: what to evaluate next, and what its logits mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from appliance.core.logprobs import TokenLogprob
from appliance.structured.budget import ClosingWatch
from appliance.structured.compiler import CompiledFormat
from appliance.structured.constraint import ConstraintFailedError, FloatArray
from appliance.structured.drafting import Draft, Drafter
from appliance.structured.json_text import JsonValue
from appliance.structured.repair import RepairPlanner, Retreat, token_ends_of
from appliance.structured.report import Problem
from appliance.structured.scoring import TokenScorer

Choose = Callable[[FloatArray, Sequence[int]], int]
DecodeState = Literal["running", "finished", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeStep:
    """What to evaluate next for one sequence.

    The engine removes from the KV cache everything after the prompt and the first `keep` output tokens,
    evaluates `tokens` behind them, and hands over the logits of some positions of the sequence, in order:
    `logits_at` counts them from the end, 0 is the last. A position before a token that must follow needs none.
    The very first step may have no tokens: then the row wanted is that of the last prompt token.
    """

    keep: int
    tokens: tuple[int, ...]
    logits_at: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOutcome:
    """What a step led to. `text` is settled: it will not be taken back. `tokens` were added by this step.

    `finish_reason` is `length` when the text was closed because the budget ran down to it. On failure
    `problems` says why, and `raw_text` of the decoder keeps what was written. `logprobs` are of the tokens that
    begin in `text`, where the decoder has a scorer.
    """

    state: DecodeState
    tokens: tuple[int, ...] = ()
    text: str = ""
    finish_reason: Literal["stop", "length"] = "stop"
    problems: tuple[Problem, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(slots=True)
class DecodeCounts:
    """How much work a sequence took."""

    forward_passes: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_drafts: int = 0
    repairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How a sequence is decoded. `max_tokens` bounds the text; drafts are off with 0."""

    max_tokens: int
    max_draft_tokens: int = 12
    uses_forced_tokens: bool = True
    repairs: int = 12
    is_greedy: bool = False


@dataclass(slots=True)
class _Output:
    tokens: list[int] = field(default_factory=list)
    is_choice: list[bool] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    evaluated: int = 0

    def add(self, tokens: Sequence[int], logprobs: Sequence[TokenLogprob], *, is_choice: bool) -> None:
        self.tokens.extend(tokens)
        self.logprobs.extend(logprobs)
        self.is_choice.extend([is_choice] * len(tokens))

    def cut(self, keep: int) -> None:
        """Drop everything after the first tokens; the last one kept is evaluated again for its logits."""
        del self.tokens[keep:]
        del self.is_choice[keep:]
        del self.logprobs[keep:]
        self.evaluated = min(self.evaluated, max(0, keep - 1))


class ConstrainedDecoder:
    """Owns one sequence from the end of its prompt to a whole, checked text or a typed failure.

    Args:
        compiled: the format, compiled for the model.
        prompt_tokens: the tokens before the output; drafts are taken from them.
        options: budgets and switches.
        choose: picks a token from one row of masked logits; the second argument is the output so far.
        scorer: tells the log-probabilities of what is written. Where the format or its closing leaves one token,
            no logits are computed, and what stands for it has a log-probability of 0 and no alternatives.
    """

    def __init__(
        self,
        compiled: CompiledFormat,
        *,
        prompt_tokens: Sequence[int],
        options: DecodeOptions,
        choose: Choose,
        scorer: TokenScorer | None = None,
    ) -> None:
        self._admitted = compiled.admitted
        self._vocabulary = compiled.vocabulary
        self._constraint = compiled.start()
        self._shortest = compiled.shortest
        self._options = options
        self._choose = choose
        self._scorer = scorer
        self._drafter = Drafter(prompt_tokens, compiled.vocabulary) if options.max_draft_tokens else None
        self._planner = RepairPlanner(budget=options.repairs)
        self._watch = ClosingWatch(
            max_tokens=options.max_tokens, is_json=self._admitted.is_json, examples=self._admitted.examples
        )
        self._output = _Output()
        self._draft = Draft()
        self._first_row: FloatArray | None = None
        self._emitted_bytes = 0
        self._settled_tokens = 0
        self._scored_tokens = 0
        self._scored_bytes = 0
        self._state: DecodeState = "running"
        self._finish_reason: Literal["stop", "length"] = "stop"
        self._problems: tuple[Problem, ...] = ()
        self.value: JsonValue = None
        self.counts = DecodeCounts()

    @property
    def state(self) -> DecodeState:
        """Whether the text is still being written."""
        return self._state

    @property
    def output_tokens(self) -> tuple[int, ...]:
        """The tokens written so far."""
        return tuple(self._output.tokens)

    @property
    def raw_text(self) -> str:
        """The text so far, settled or not."""
        return self._vocabulary.decode(self._output.tokens).decode("utf-8", errors="replace")

    def next_step(self) -> DecodeStep:
        """Return what to evaluate; call it before each `on_logits`.

        The step is empty, with no logits wanted, once the state is not `running`: a budget that no valid
        text fits fails before anything is evaluated.
        """
        output = self._output
        if not output.tokens and self.counts.forward_passes == 0:
            self._begin()
        if self._state != "running":
            return DecodeStep(keep=output.evaluated, tokens=(), logits_at=())
        pending = output.tokens[output.evaluated :]
        self._draft = self._new_draft() if pending else Draft()
        return DecodeStep(
            keep=output.evaluated,
            tokens=(*pending, *self._draft.tokens),
            logits_at=tuple(len(self._draft.tokens) - position for position in self._choices()),
        )

    def on_logits(self, rows: Sequence[FloatArray]) -> DecodeOutcome:
        """Take the logits the step asked for; rows are changed in place.

        Raises:
            ConstraintFailedError: the grammar hit a limit on this text.
        """
        written = len(self._output.tokens)
        self.counts.forward_passes += 1
        self.counts.drafted_tokens += len(self._draft.tokens)
        self._output.evaluated = written
        if written == 0:
            self._first_row = rows[0].copy()
        try:
            self._walk(rows)
            while self._state == "running" and not self._output.tokens and self._first_row is not None:
                self._walk([self._first_row.copy()])
        except ConstraintFailedError as error:
            self._fail([Problem(pointer="", keyword="", message=error.message)])
            raise
        return self._outcome(min(written, len(self._output.tokens)))

    def outcome(self) -> DecodeOutcome:
        """Return the outcome without new logits: for a text that was whole, or failed, at its first step."""
        return self._outcome(0)

    def _begin(self) -> None:
        if not self._watch.fits_from_start(self._shortest):
            message = f"no valid text closes within max_tokens = {self._options.max_tokens}"
            self._fail([Problem(pointer="", keyword="max_tokens", message=message)])
            return
        self._extend_forced()
        self._finish_if_complete()

    def _choices(self) -> list[int]:
        """Positions, counted from the last token that stands, after which the model has a choice."""
        return [
            position for position, is_forced in enumerate((*self._draft.is_forced, False)) if not is_forced
        ]

    def _walk(self, rows: Sequence[FloatArray]) -> None:
        row_at = dict(zip(self._choices(), rows, strict=False))
        position = 0
        while position in row_at and self._state == "running":
            written = len(self._output.tokens)
            row = row_at[position]
            chosen = self._scorer.read(row) if self._scorer else None
            token = self._select(row)
            if token is None:
                self._retreat_from_dead_end()
                break
            if token in self._vocabulary.end_token_ids:
                self._finish("stop")
                break
            self._constraint.accept([token])
            self._output.add([token], [chosen(token)] if chosen else [], is_choice=True)
            self._extend_forced()
            if not self._keeps_budget(written):
                break
            committed = self._output.tokens[written:]
            agreed = _common_prefix(committed, self._draft.tokens[position:])
            self._output.evaluated += agreed
            position += agreed
            self._finish_if_complete()
            if agreed < len(committed):
                break
        self.counts.accepted_drafts += position
        if self._drafter is not None:
            self._drafter.learn(self._draft, position)

    def _select(self, row: FloatArray) -> int | None:
        banned = self._planner.banned.get(len(self._output.tokens), set())
        if self._options.is_greedy:
            best = int(row.argmax())
            if best not in banned and best < len(self._vocabulary) and self._constraint.allows(best):
                return best
        self._constraint.apply(row)
        for token in banned:
            row[token] = -np.inf
        if not np.isfinite(row.max()):
            return None
        if self._options.is_greedy:
            return int(row.argmax())
        token = self._choose(row, self._output.tokens)
        if not np.isfinite(row[token]):
            raise ConstraintFailedError(f"the sampler chose the token {token}, which the constraint forbids")
        return token

    def _extend_forced(self) -> None:
        if not self._options.uses_forced_tokens:
            return
        forced = self._constraint.forced_tokens()
        if forced:
            self._constraint.accept(forced)
            self._watch.note_forced(len(self._output.tokens), len(forced))
            self._add_settled(forced)
            self.counts.forced_tokens += len(forced)

    def _add_settled(self, tokens: Sequence[int]) -> None:
        logprobs = [self._scorer.settled(token) for token in tokens] if self._scorer else []
        self._output.add(tokens, logprobs, is_choice=False)

    def _new_draft(self) -> Draft:
        room = self._options.max_tokens - len(self._output.tokens)
        if self._drafter is None or self._planner.banned or room <= 0:
            return Draft()
        return self._drafter.draft(self._constraint, min(self._options.max_draft_tokens, room))

    def _finish_if_complete(self) -> None:
        if self._state == "running" and self._constraint.is_complete:
            self._finish("stop")

    def _finish(self, reason: Literal["stop", "length"]) -> None:
        text = self.raw_text
        scan, problems = self._admitted.check(text)
        if not problems:
            self._state = "finished"
            self._finish_reason = reason
            self.value = scan.value if scan is not None else None
            return
        if scan is None or reason == "length":
            self._fail(problems)
            return
        ends = token_ends_of(self._vocabulary, self._output.tokens)
        retreat = self._planner.plan(scan, problems, ends, self._output.tokens, self._output.is_choice)
        if retreat is None or retreat.keep < self._settled_tokens:
            self._fail(problems)
            return
        self.counts.repairs += 1
        self._go_back(retreat.keep)

    def _go_back(self, keep: int) -> None:
        self._constraint.rollback(len(self._output.tokens) - keep)
        self._output.cut(keep)
        self._watch.go_back(keep)

    def _retreat_from_dead_end(self) -> None:
        earlier = [index for index, chosen in enumerate(self._output.is_choice) if chosen]
        if not earlier or self._planner.budget <= 0:
            self._fail(
                [Problem(pointer="", keyword="", message="every way to go on was tried and failed the check")]
            )
            return
        self._planner.budget -= 1
        retreat: Retreat = self._planner.ban(earlier[-1], self._output.tokens[earlier[-1]])
        self._go_back(retreat.keep)

    def _keeps_budget(self, before: int) -> bool:
        """Whether the text can still close; if not, take back what does not fit and close it."""
        if self._watch.still_fits(self._constraint):
            return True
        for keep in self._watch.places_to_close(before, self._output.is_choice, self._settled_tokens):
            self._go_back(keep)
            closing = self._watch.closing_from(self._constraint)
            if closing is None:
                continue
            text = self._vocabulary.decode([*self._output.tokens, *closing]).decode("utf-8", errors="replace")
            if not self._admitted.problems(text):
                self._constraint.accept(closing)
                self._add_settled(closing)
                self._finish("length")
                return False
        message = f"the text could not be closed validly within max_tokens = {self._options.max_tokens}"
        self._fail([Problem(pointer="", keyword="max_tokens", message=message)])
        return False

    def _fail(self, problems: list[Problem]) -> None:
        self._state = "failed"
        self._problems = tuple(problems)

    def _outcome(self, written: int) -> DecodeOutcome:
        return DecodeOutcome(
            state=self._state,
            tokens=tuple(self._output.tokens[written:]),
            text=self._settled_text(),
            finish_reason=self._finish_reason,
            problems=self._problems,
            logprobs=self._settled_logprobs(),
        )

    def _settled_text(self) -> str:
        if self._state == "failed" or not (self._admitted.is_exact or self._state == "finished"):
            return ""
        # What stands behind the last place the text is known to close from may have to go again.
        safe = len(self._output.tokens) if self._state == "finished" else self._watch.safe_tokens
        self._settled_tokens = max(self._settled_tokens, safe)
        fresh = self._vocabulary.decode(self._output.tokens[:safe])[self._emitted_bytes :]
        whole = _whole_characters(fresh)
        self._emitted_bytes += len(whole)
        return whole.decode("utf-8", errors="replace")

    def _settled_logprobs(self) -> tuple[TokenLogprob, ...]:
        """Return those of the tokens that begin in what was emitted since the last time."""
        first = self._scored_tokens
        while self._scored_tokens < len(self._output.logprobs) and self._scored_bytes < self._emitted_bytes:
            token = self._output.tokens[self._scored_tokens]
            self._scored_bytes += len(self._vocabulary.token_bytes[token])
            self._scored_tokens += 1
        return tuple(self._output.logprobs[first : self._scored_tokens])


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    for one, two in zip(first, second, strict=False):
        if one != two:
            break
        count += 1
    return count


def _whole_characters(data: bytes) -> bytes:
    for cut in range(1, min(4, len(data)) + 1):
        lead = data[-cut]
        if lead >= 0xC0:
            length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data if cut >= length else data[:-cut]
        if lead < 0x80:
            break
    return data
