"""What a stream of chat completions brought so far, whatever a server sends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.answers import PHASES

SHOWN_CHARACTERS = 300
_MILLI = 1e-3
_TEXTS = ("content", "reasoning_content", "reasoning", "tool_calls")
# Names of one text; some servers send their reasoning under both.
_SYNONYMS = (("content",), ("reasoning_content", "reasoning"))


class NoEventError(ValueError):
    """What came is no event of a chat completion."""


@dataclass(slots=True)
class Received:
    """Times, text and counts of one answer; fields that are none of the API's types are passed over."""

    sent_s: float
    ended_s: float = 0.0
    times_s: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    cached_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    content_type: str = ""
    has_ended: bool = False
    failure: str = ""

    def take(self, event: bytes, at_s: float) -> None:
        """Read one event that came at a time.

        Raises:
            NoEventError: it is no JSON.
        """
        if event == b"[DONE]":
            self.has_ended = True
            return
        try:
            value = json.loads(event)
        except ValueError as exc:
            shown = words(event[:SHOWN_CHARACTERS].decode(errors="replace"))
            raise NoEventError(f"an event of the stream is no JSON: {shown}") from exc
        fields = _mapping(value)
        if "error" in fields:
            self.failure = words(json.dumps(fields["error"]))
            return
        for choice in _mappings(fields.get("choices")):
            self._take_choice(choice, at_s)
        self._take_usage(_mapping(fields.get("usage")))
        self._take_llama_server(_mapping(fields.get("timings")))
        self._take_appliance(_mapping(fields.get("appliance")))

    def missing(self) -> str:
        """What an answer lacks; a server that closes the connection in the middle may look like one that ended."""
        if not self.times_s:
            is_stream = not self.content_type or self.content_type.startswith("text/event-stream")
            kind = (
                ""
                if is_stream
                else f": the server sent {words(self.content_type)} instead of a stream of events"
            )
            return f"the answer has no text{kind}"
        if self.finish_reason or self.has_ended:
            return ""
        return f"the stream broke off after {len(self.times_s)} chunks: no finish_reason and no [DONE]"

    def _take_choice(self, choice: Mapping[str, object], at_s: float) -> None:
        delta = _mapping(choice.get("delta"))
        if any(delta.get(name) for name in _TEXTS):
            self.times_s.append(at_s)
            self.texts += [_first_text(delta, names) for names in _SYNONYMS]
        reason = choice.get("finish_reason")
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason

    def _take_usage(self, usage: Mapping[str, object]) -> None:
        if not usage:
            return
        self.input_tokens = whole(usage.get("prompt_tokens"))
        self.output_tokens = whole(usage.get("completion_tokens"))
        details = _mapping(usage.get("prompt_tokens_details"))
        if details:
            self.cached_tokens = whole(details.get("cached_tokens"))

    def _take_llama_server(self, timings: Mapping[str, object]) -> None:
        prompt_ms, cached = timings.get("prompt_ms"), whole(timings.get("cache_n"))
        if isinstance(prompt_ms, int | float):
            self.phases["prefill_s"] = float(prompt_ms) * _MILLI
        if cached is not None:
            self.cached_tokens = cached

    def _take_appliance(self, receipt: Mapping[str, object]) -> None:
        timings = receipt.get("timings")
        first = _mapping(timings[0] if isinstance(timings, list) and timings else timings)
        for name in PHASES:
            value = first.get(name)
            if isinstance(value, int | float):
                self.phases[name] = float(value)


def whole(value: object) -> int | None:
    """A count; None where the value is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def words(text: str) -> str:
    """A text on one line, not longer than a message may be."""
    return " ".join(text.split())[:SHOWN_CHARACTERS]


def _first_text(delta: Mapping[str, object], names: Iterable[str]) -> str:
    return next((text for name in names if isinstance(text := delta.get(name), str) and text), "")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
