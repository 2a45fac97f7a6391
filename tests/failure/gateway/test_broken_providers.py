"""A provider that breaks its promise ends one request with a typed failure, and nothing more."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from appliance.core.capabilities import ProviderCapabilities
from appliance.core.clock import VirtualClock
from appliance.core.errors import EngineCrashedError
from appliance.core.events import Completed, Failed, ModelIdentity, StreamEvent, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import Deadline, GenerateRequest
from appliance.core.usage import Timings, Usage
from appliance.gateway import Gateway

DONE = Completed(
    finish_reason="stop", usage=Usage(), timings=Timings(), model=ModelIdentity(provider="broken", name="m")
)
Play = Callable[["BrokenProvider"], AsyncGenerator[StreamEvent]]


class BrokenProvider:
    """Plays any stream, right or wrong, and remembers whether it was closed."""

    name = "broken"

    def __init__(self, play: Play) -> None:
        self._play = play
        self.is_stream_closed = False
        self.started = asyncio.Event()

    async def capabilities(self, model: str) -> ProviderCapabilities:
        return ProviderCapabilities(
            capabilities=frozenset(("chat",)), context_window=100, placement="this_process"
        )

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        try:
            async for event in self._play(self):
                yield event
        finally:
            self.is_stream_closed = True

    async def load(self, model: str) -> None:
        return

    async def unload(self, model: str) -> None:
        return

    async def count_tokens(self, request: GenerateRequest) -> int:
        return 1

    async def close(self) -> None:
        return


async def raises_foreign_error(_: BrokenProvider) -> AsyncGenerator[StreamEvent]:
    yield TextDelta(text="half")
    raise ZeroDivisionError("division by zero")


async def raises_own_error(_: BrokenProvider) -> AsyncGenerator[StreamEvent]:
    yield TextDelta(text="half")
    raise EngineCrashedError("it died")


async def ends_without_an_end(_: BrokenProvider) -> AsyncGenerator[StreamEvent]:
    yield TextDelta(text="half")


async def goes_on_after_the_end(_: BrokenProvider) -> AsyncGenerator[StreamEvent]:
    yield DONE
    yield TextDelta(text="more")
    yield DONE


async def hangs(provider: BrokenProvider) -> AsyncGenerator[StreamEvent]:
    yield TextDelta(text="half")
    provider.started.set()
    await asyncio.Event().wait()


def request_of(deadline: Deadline | None = None) -> GenerateRequest:
    conversation = Conversation.of(UserMessage(text="go"))
    return GenerateRequest(conversation=conversation, model="m", deadline=deadline or Deadline())


async def events_of(provider: BrokenProvider, deadline: Deadline | None = None) -> list[StreamEvent]:
    gateway = Gateway([provider], VirtualClock())
    return [event async for event in gateway.stream(request_of(deadline))]


@pytest.mark.parametrize("deadline", [Deadline(), Deadline(total_s=60.0)], ids=["no deadline", "deadline"])
@pytest.mark.parametrize(
    "play, kind, message",
    [
        (raises_foreign_error, "internal", "ZeroDivisionError: division by zero"),
        (raises_own_error, "engine_crashed", "it died"),
        (ends_without_an_end, "internal", "ended without saying how"),
    ],
)
async def test_a_broken_stream_ends_as_one_typed_failure_after_what_was_written(
    play: Play, kind: str, message: str, deadline: Deadline
) -> None:
    provider = BrokenProvider(play)

    events = await events_of(provider, deadline)

    assert [event.kind for event in events] == ["text_delta", "failed"]
    last = events[-1]
    assert isinstance(last, Failed)
    assert last.failure.kind == kind
    assert message in last.failure.message
    assert provider.is_stream_closed


async def test_nothing_passes_after_the_terminal_event() -> None:
    provider = BrokenProvider(goes_on_after_the_end)

    assert await events_of(provider) == [DONE]
    assert provider.is_stream_closed


@pytest.mark.parametrize("deadline", [Deadline(), Deadline(total_s=1e9)], ids=["no deadline", "deadline"])
async def test_cancelling_the_caller_closes_the_provider_and_raises_cancelled(deadline: Deadline) -> None:
    provider = BrokenProvider(hangs)
    gateway = Gateway([provider], FrozenClock())
    task = asyncio.create_task(gateway.generate(request_of(deadline)))
    await provider.started.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.is_stream_closed


async def test_a_provider_that_hangs_is_ended_by_the_deadline() -> None:
    provider = BrokenProvider(hangs)

    events = await events_of(provider, Deadline(between_tokens_s=5.0))

    last = events[-1]
    assert isinstance(last, Failed)
    assert last.failure.details["phase"] == "between_tokens"
    assert provider.is_stream_closed


class FrozenClock:
    """Time never passes."""

    def now_s(self) -> float:
        return 0.0

    async def sleep(self, duration_s: float) -> None:
        await asyncio.Event().wait()
