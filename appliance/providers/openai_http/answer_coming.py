"""One answer as it comes over HTTP: its chunks, its times, and whether it is whole."""

from __future__ import annotations

from appliance.core.errors import ProviderUnavailableError
from appliance.core.events import PrefillProgress, ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import FinishReason, Timings, Usage
from appliance.providers.openai_http.body import is_wrapped
from appliance.providers.openai_http.chunks import AnswerChunks
from appliance.providers.openai_http.event_stream import EventStreamParser, EventTooLongError

_DONE = "[DONE]"


class AnswerComing:
    """Takes the events of one answer. `is_done` once the server closed it, `is_cancelled` once we did."""

    def __init__(self, clock: Clock, server: str, request: GenerateRequest) -> None:
        self.chunks = AnswerChunks(
            server, is_wrapped=is_wrapped(request.output), top_logprobs=request.sampling.top_logprobs
        )
        self.server = server
        self.is_done = False
        self.is_cancelled = False
        self._clock = clock
        self._started_s = clock.now_s()
        self._first_delta_s: float | None = None
        self._written: list[str] = []
        self._prompt = Usage()

    @property
    def written(self) -> str:
        """Everything that was written."""
        return "".join(self._written)

    @property
    def usage_so_far(self) -> Usage:
        """Tokens as last reported; before that, those of the prompt."""
        return self.chunks.usage or self._prompt

    @property
    def finish_reason(self) -> FinishReason:
        """Why it ended."""
        return "cancelled" if self.is_cancelled else self.chunks.finish_reason or "error"

    def note(self, event: StreamEvent) -> None:
        """Take the time and the text of an event."""
        match event:
            case TextDelta() | ReasoningDelta():
                self._note_delta(event.text)
            case ToolCallDelta():
                self._note_delta(event.name + event.arguments_delta)
            case PrefillProgress():
                self._prompt = Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens)

    def check_whole(self) -> None:
        """Raise unless the server said why the answer ended."""
        if self.chunks.finish_reason is None and not self.is_cancelled:
            raise ProviderUnavailableError(
                f"{self.server} broke off its answer", hint="see what the server logs", was_cut=True
            )

    def timings(self) -> Timings:
        """Return the phases: the server's own where it measures them, else parted by the first delta."""
        total_s = self._clock.now_s() - self._started_s
        ttft_s = 0.0 if self._first_delta_s is None else self._first_delta_s - self._started_s
        measured = self.chunks.timings
        prefill_s = min(measured.prefill_s, ttft_s) if measured.prefill_s else ttft_s
        decode_s = measured.decode_s or (total_s - ttft_s if ttft_s else 0.0)
        return Timings(
            prefill_s=prefill_s, decode_s=min(decode_s, total_s - prefill_s), ttft_s=ttft_s, total_s=total_s
        )

    def _note_delta(self, text: str) -> None:
        self._written.append(text)
        if self._first_delta_s is None:
            self._first_delta_s = self._clock.now_s()


def events_in(parser: EventStreamParser, piece: bytes | None, answer: AnswerComing) -> list[StreamEvent]:
    """Return the events that the next bytes complete; without bytes, those that the end leaves.

    Raises:
        ApplianceError: the server reports a failure, or sends what is no stream of chunks.
    """
    try:
        received = parser.finish() if piece is None else parser.feed(piece)
    except EventTooLongError as exc:
        raise ProviderUnavailableError(f"{answer.server}: {exc}") from exc
    events: list[StreamEvent] = []
    for event in received:
        if answer.is_done:
            break
        if event.data.strip() == _DONE:
            answer.is_done = True
        elif event.data.strip():
            events += answer.chunks.events_of(event.data)
    return events
