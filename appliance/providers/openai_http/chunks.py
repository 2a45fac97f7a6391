"""Stream chunks as events: deltas, fragments of tool calls, progress, usage, and how the answer ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from appliance.core.errors import ProviderUnavailableError
from appliance.core.events import (
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.logprobs import TokenLogprob
from appliance.core.usage import FinishReason, Usage
from appliance.providers.openai_http.failures import error_in_stream, withheld
from appliance.providers.openai_http.foreign_json import at, count_at, list_at, number_at, parsed, text_at
from appliance.providers.openai_http.logprobs import logprobs_in

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimings:
    """Seconds as the server measured them; 0 where it does not say."""

    prefill_s: float = 0.0
    decode_s: float = 0.0


class AnswerChunks:
    """Reads the chunks of one answer.

    Args:
        is_wrapped: the text is a JSON string, of which the value is given when it is whole.
        top_logprobs: how many alternatives were asked for beside the log-probability of each token.
    """

    def __init__(self, server: str, *, is_wrapped: bool = False, top_logprobs: int | None = None) -> None:
        self._server = server
        self._is_wrapped = is_wrapped
        self._wrapped: list[str] = []
        self._top_logprobs = top_logprobs
        self._logprobs: list[TokenLogprob] = []
        self._calls = _CallNumbers()
        self.finish_reason: FinishReason | None = None
        self.usage: Usage | None = None
        self.timings = ServerTimings()
        self.written_characters = 0

    def events_of(self, data: str) -> list[StreamEvent]:
        """Return the events of one chunk.

        Raises:
            ApplianceError: it says that something failed, or is no chunk.
        """
        chunk = parsed(data)
        if not isinstance(chunk, dict):
            raise ProviderUnavailableError(
                f"{self._server} sent a chunk that is no JSON object",
                hint="see whether a proxy cuts its answers",
            )
        if at(chunk, "error") is not None:
            raise error_in_stream(self._server, chunk)
        self._note_timings(chunk)
        return [*self._progress(chunk), *self._choice(chunk), *self._usage_events(chunk)]

    def rest(self) -> list[StreamEvent]:
        """Return what could only be told at the end of the answer."""
        if not self._is_wrapped or self.finish_reason is None:
            return []
        text = "".join(self._wrapped)
        value = parsed(text)
        if isinstance(value, str):
            return [TextDelta(text=value)] if value else []
        # Cut by its length: shown as it is, so that what judges the answer says what is wrong with it.
        return [TextDelta(text=text)] if text else []

    def _progress(self, chunk: object) -> list[StreamEvent]:
        total, processed = (count_at(chunk, "prompt_progress", name) for name in ("total", "processed"))
        if total is None or processed is None:
            return []
        cached = count_at(chunk, "prompt_progress", "cache") or 0
        return [
            PrefillProgress(
                processed_tokens=min(processed, total), total_tokens=total, cached_tokens=min(cached, total)
            )
        ]

    def _choice(self, chunk: object) -> list[StreamEvent]:
        choices = list_at(chunk, "choices")
        if not choices:
            return []
        events = self._with_logprobs(self._delta(at(choices[0], "delta")), choices[0])
        if reason := text_at(choices[0], "finish_reason"):
            self.finish_reason = self._reason(reason)
        return events

    def _delta(self, delta: object) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if reasoning := text_at(delta, "reasoning_content") or text_at(delta, "reasoning"):
            self.written_characters += len(reasoning)
            events.append(ReasoningDelta(text=reasoning))
        if text := text_at(delta, "content") or text_at(delta, "refusal"):
            self.written_characters += len(text)
            if self._is_wrapped:
                self._wrapped.append(text)
            else:
                events.append(TextDelta(text=text))
        for position, fragment in enumerate(list_at(delta, "tool_calls")):
            event = self._calls.event_of(fragment, position)
            self.written_characters += len(event.name) + len(event.arguments_delta)
            events.append(event)
        return events

    def _with_logprobs(self, events: list[StreamEvent], choice: object) -> list[StreamEvent]:
        """Give the tokens of a chunk to its text; those of a character that is not whole yet wait for it."""
        if self._top_logprobs is None or (events and not any(isinstance(e, TextDelta) for e in events)):
            return events
        self._logprobs += logprobs_in(choice, self._top_logprobs)
        return [self._scored(each) if isinstance(each, TextDelta) else each for each in events]

    def _scored(self, delta: TextDelta) -> TextDelta:
        logprobs, self._logprobs = tuple(self._logprobs), []
        return replace(delta, logprobs=logprobs)

    def _reason(self, stated: str) -> FinishReason:
        if stated == "content_filter":
            raise withheld(self._server)
        if stated in ("error", "abort", "cancelled"):
            raise ProviderUnavailableError(f"{self._server} gave up the answer ({stated})")
        reason = _REASONS.get(stated, "stop")
        return "tool_calls" if reason == "stop" and self._calls.is_any else reason

    def _usage_events(self, chunk: object) -> list[StreamEvent]:
        found = at(chunk, "usage")
        input_tokens, output_tokens = count_at(found, "prompt_tokens"), count_at(found, "completion_tokens")
        if input_tokens is None or output_tokens is None:
            return []
        cached = count_at(found, "prompt_tokens_details", "cached_tokens")
        cached = cached if cached is not None else count_at(found, "prompt_cache_hit_tokens") or 0
        usage = Usage(
            input_tokens=input_tokens,
            cached_tokens=min(cached, input_tokens),
            output_tokens=output_tokens,
            reasoning_tokens=min(
                count_at(found, "completion_tokens_details", "reasoning_tokens") or 0, output_tokens
            ),
            drafted_tokens=count_at(chunk, "timings", "draft_n") or 0,
            accepted_tokens=count_at(chunk, "timings", "draft_n_accepted") or 0,
        )
        self.usage = usage
        return [UsageReported(usage=usage)]

    def _note_timings(self, chunk: object) -> None:
        timings = at(chunk, "timings")
        if timings is None:
            return
        self.timings = ServerTimings(
            prefill_s=number_at(timings, "prompt_ms") / 1000,
            decode_s=number_at(timings, "predicted_ms") / 1000,
        )


class _CallNumbers:
    """Tells the fragments of several tool calls apart, also where a server leaves their index out."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}

    @property
    def is_any(self) -> bool:
        return bool(self._ids)

    def event_of(self, fragment: object, position: int) -> ToolCallDelta:
        call_id = text_at(fragment, "id")
        index = count_at(fragment, "index")
        index = self._guessed(call_id, position) if index is None else index
        is_new = index not in self._ids
        if is_new:
            self._ids[index] = call_id or f"call_{index}"
        arguments = at(fragment, "function", "arguments")
        return ToolCallDelta(
            index=index,
            call_id=self._ids[index],
            name=text_at(fragment, "function", "name"),
            # Some servers send the arguments as an object and not as its JSON text.
            arguments_delta=arguments if isinstance(arguments, str) else _json_of(arguments),
        )

    def _guessed(self, call_id: str, position: int) -> int:
        if not call_id:
            return max(self._ids, default=position)
        return next((index for index, known in self._ids.items() if known == call_id), len(self._ids))


def _json_of(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else ""
