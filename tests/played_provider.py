"""A provider whose every call plays what a test wrote down: events, pauses and failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

from appliance.core.capabilities import Capability, Placement, ProviderCapabilities
from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, FailureKind, ModelNotFoundError
from appliance.core.events import Completed, Failed, ModelIdentity, StreamEvent, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings, Usage

Play = tuple[StreamEvent | float, ...]
"""One call: events in order, and seconds to wait between them."""

EVERYTHING: frozenset[Capability] = frozenset(("chat", "json_schema", "tools", "streaming_usage"))
IDENTITY = ModelIdentity(provider="", name="")


def says(text: str, *, seconds: float = 0.0, input_tokens: int = 10) -> Play:
    """Answer with one delta after some seconds; the answer has as many tokens as words."""
    usage = Usage(input_tokens=input_tokens, output_tokens=len(text.split()))
    timings = Timings(ttft_s=seconds, total_s=seconds, decode_s=seconds)
    ending = Completed(finish_reason="stop", usage=usage, timings=timings, model=IDENTITY)
    return (seconds, TextDelta(text=text), ending)


def fails(
    kind: FailureKind, *, after: str = "", seconds: float = 0.0, retryable: bool = True, **details: float
) -> Play:
    """Fail after some seconds, with some text before it."""
    failure = Failure(kind=kind, message=f"it is {kind}", retryable=retryable, details={**details})
    ending = Failed(failure=failure, usage=Usage(input_tokens=3), timings=Timings(total_s=seconds))
    return (seconds, *((TextDelta(text=after),) if after else ()), ending)


@dataclass
class PlayedModel:
    """A model and its calls in order; the last one repeats."""

    name: str
    plays: Sequence[Play]
    placement: Placement = "this_machine"
    capabilities: frozenset[Capability] = EVERYTHING
    context_window: int = 4096
    digest: str = "digest"
    parallel: int = 0
    requests: list[GenerateRequest] = field(default_factory=list)
    running: int = 0
    most_running: int = 0


class PlayedProvider:
    """Plays models and counts what runs."""

    def __init__(self, clock: Clock, *models: PlayedModel, name: str = "played") -> None:
        self.name = name
        self._clock = clock
        self._models = {model.name: model for model in models}

    async def capabilities(self, model: str) -> ProviderCapabilities:
        played = self._model(model)
        return ProviderCapabilities(
            capabilities=played.capabilities,
            context_window=played.context_window,
            placement=played.placement,
            digest=played.digest,
            parallel=played.parallel,
        )

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        played = self._model(request.model)
        play = played.plays[min(len(played.requests), len(played.plays) - 1)]
        played.requests.append(request)
        played.running += 1
        played.most_running = max(played.most_running, played.running)
        try:
            for step in play:
                if isinstance(step, float):
                    if step:
                        await self._clock.sleep(step)
                    continue
                yield self._named(step, played)
        finally:
            played.running -= 1

    async def load(self, model: str) -> None:
        self._model(model)

    async def unload(self, model: str) -> None:
        self._model(model)

    async def count_tokens(self, request: GenerateRequest) -> int:
        return len(request.conversation.messages[-1].text.split())

    async def close(self) -> None:
        return

    def _named(self, event: StreamEvent, played: PlayedModel) -> StreamEvent:
        if not isinstance(event, Completed):
            return event
        model = ModelIdentity(provider=self.name, name=played.name, digest=played.digest)
        return replace(event, model=model)

    def _model(self, name: str) -> PlayedModel:
        if name not in self._models:
            raise ModelNotFoundError(f"there is no model {name!r}", model=name)
        return self._models[name]


def question(text: str = "why?", *, model: str = "small", **changes: object) -> GenerateRequest:
    """Make a request of one question."""
    conversation = Conversation.of(UserMessage(text=text))
    return GenerateRequest(conversation=conversation, model=model, **changes)  # type: ignore[arg-type]


def played(*models: PlayedModel, clock: Clock | None = None) -> PlayedProvider:
    """Make a provider of models on a clock where nobody waits."""
    return PlayedProvider(clock or VirtualClock(), *models)
