"""One turn of a scripted model as a sequence of beats: pause, then an event. Pure, so always the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from appliance.core.errors import ContextOverflowError, Failure
from appliance.core.events import (
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from appliance.core.messages import UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Usage
from appliance.engine.detokenizer import StopFilter
from appliance.providers.script import (
    CallTool,
    EchoQuestion,
    Fail,
    Say,
    ScriptedModel,
    Step,
    Think,
    Wait,
    prompt_tokens_of,
    tokens_of,
)

PREFILL_CHUNK_TOKENS = 256
LOAD_STEPS = 4

Ending = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Beat:
    """Wait, then emit the event if there is one."""

    pause_s: float
    event: StreamEvent | None = None


class Performance:
    """Plays the turn that answers a request; `usage`, `ending` and `failure` hold after each beat.

    Raises:
        ContextOverflowError: the prompt leaves no room for an answer.
    """

    def __init__(self, request: GenerateRequest, model: ScriptedModel) -> None:
        self._request = request
        self._model = model
        open_turn = request.conversation.open_turn
        self._written_before = open_turn.text if open_turn is not None else ""
        self._stop_filter = StopFilter(request.sampling.stop, before=self._written_before)
        self._call_count = 0
        self._output_tokens = 0
        self._reasoning_tokens = 0
        self._cached_tokens = 0
        self._processed_tokens = 0
        self._answer_tokens: list[str] = []
        self.prompt = prompt_tokens_of(request.conversation)
        self.ending: Ending = "stop"
        self.failure: Failure | None = None
        self._token_limit = self._room()

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(
            input_tokens=len(self.prompt),
            cached_tokens=self._cached_tokens,
            output_tokens=self._output_tokens,
            reasoning_tokens=self._reasoning_tokens,
            forward_passes=self._output_tokens,
        )

    @property
    def kept_tokens(self) -> list[str]:
        """What an engine would hold in its KV cache by now."""
        return [*self.prompt[: self._processed_tokens], *self._answer_tokens]

    def beats(self, *, cached_tokens: int, needs_load: bool) -> Iterator[Beat]:
        """Load if needed, prefill what is not cached, then play step by step."""
        self._cached_tokens = cached_tokens
        if needs_load and self._model.load_s > 0:
            yield from self._load()
        yield from self._prefill()
        for step in self._model.turn(self._request.conversation):
            yield from self._play(step)
            if self._is_over:
                break
        if held := self._stop_filter.flush():
            yield Beat(0.0, TextDelta(text=held))

    @property
    def _is_over(self) -> bool:
        return self._stop_filter.is_stopped or self.ending == "length" or self.failure is not None

    def _room(self) -> int:
        room = self._model.context_window - len(self.prompt)
        if room < 1:
            raise ContextOverflowError(
                prompt_tokens=len(self.prompt), context_window=self._model.context_window
            )
        return min(room, self._request.sampling.max_tokens or room)

    def _load(self) -> Iterator[Beat]:
        yield Beat(0.0, LoadProgress(fraction=0.0))
        for step in range(1, LOAD_STEPS + 1):
            yield Beat(self._model.load_s / LOAD_STEPS, LoadProgress(fraction=step / LOAD_STEPS))

    def _prefill(self) -> Iterator[Beat]:
        total = len(self.prompt)
        processed = self._cached_tokens
        while processed < total:
            chunk = min(PREFILL_CHUNK_TOKENS, total - processed)
            processed += chunk
            progress = PrefillProgress(
                processed_tokens=processed, total_tokens=total, cached_tokens=self._cached_tokens
            )
            yield Beat(chunk * self._model.prefill_token_s, progress)
            self._processed_tokens = processed

    def _play(self, step: Step) -> Iterator[Beat]:
        match step:
            case Say():
                yield from self._say(step.text, step.token_s)
            case EchoQuestion():
                yield from self._say(self._last_question(), step.token_s)
            case Think():
                yield from self._think(step)
            case CallTool():
                yield from self._call(step)
            case Wait():
                # Nobody waits again for what an open turn has behind it.
                is_past = self._request.conversation.is_open and not self._output_tokens
                yield Beat(0.0 if is_past else step.duration_s)
            case Fail():
                self.failure = step.failure
            case _:
                assert_never(step)

    def _say(self, text: str, token_s: float) -> Iterator[Beat]:
        for token in tokens_of(self._not_yet_written(text)):
            if not self._take_token():
                return
            self._answer_tokens.append(token)
            shown = self._stop_filter.push(token)
            yield Beat(token_s, TextDelta(text=shown) if shown else None)
            if self._stop_filter.is_stopped:
                return

    def _not_yet_written(self, text: str) -> str:
        """Return what of a text an open turn does not hold; what it holds is taken off it for the next step."""
        before = self._written_before
        common = len(text) if before.startswith(text) else len(before) if text.startswith(before) else 0
        self._written_before = before[common:]
        return text[common:]

    def _think(self, step: Think) -> Iterator[Beat]:
        if self._request.conversation.is_open:
            return
        tokens = tokens_of(step.text)
        budget = self._request.sampling.reasoning_budget
        for token in tokens if budget is None else tokens[:budget]:
            if not self._take_token():
                return
            self._reasoning_tokens += 1
            yield Beat(step.token_s, ReasoningDelta(text=token))

    def _call(self, step: CallTool) -> Iterator[Beat]:
        index = self._call_count
        call_id = f"call_{len(self._request.conversation.messages)}_{index}"
        self._call_count += 1
        for position, token in enumerate(tokens_of(step.arguments_json) or [""]):
            if not self._take_token():
                return
            name = step.name if position == 0 else ""
            delta = ToolCallDelta(index=index, call_id=call_id, name=name, arguments_delta=token)
            yield Beat(0.0, delta)
        self.ending = "tool_calls"

    def _take_token(self) -> bool:
        """Count one more token, or end the answer for want of room."""
        if self._output_tokens >= self._token_limit:
            self.ending = "length"
            return False
        self._output_tokens += 1
        return True

    def _last_question(self) -> str:
        questions = (
            m.text for m in reversed(self._request.conversation.messages) if isinstance(m, UserMessage)
        )
        return next(questions, "")
