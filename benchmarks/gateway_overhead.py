"""What the gateway itself takes: processor time of a request and of a delta, over a provider that does nothing.

`python -m benchmarks.gateway_overhead`
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from appliance.core.capabilities import ProviderCapabilities
from appliance.core.clock import SystemClock
from appliance.core.events import Completed, ModelIdentity, StreamEvent, TextDelta
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings, Usage
from appliance.gateway import Gateway

_MANY_DELTAS = 200
_ROUNDS = 5
_ENDING = Completed(
    finish_reason="stop",
    usage=Usage(input_tokens=3, output_tokens=1),
    timings=Timings(),
    model=ModelIdentity(provider="instant", name="model"),
)
_OFFERED = ProviderCapabilities(
    capabilities=frozenset(("chat",)), context_window=4096, placement="this_process", parallel=4
)


class InstantProvider:
    """Answers with a number of deltas at once."""

    name = "instant"

    def __init__(self, deltas: int) -> None:
        self._deltas = [TextDelta(text="word")] * deltas

    async def capabilities(self, model: str) -> ProviderCapabilities:  # noqa: ARG002
        return _OFFERED

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:  # noqa: ARG002
        for delta in self._deltas:
            yield delta
        yield _ENDING

    async def load(self, model: str) -> None:  # noqa: ARG002
        return

    async def unload(self, model: str) -> None:  # noqa: ARG002
        return

    async def count_tokens(self, request: GenerateRequest) -> int:  # noqa: ARG002
        return 3

    async def close(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Microseconds of processor time that the gateway adds."""

    request_us: float
    delta_us: float


async def measure(requests: int = 1000) -> Overhead:
    """Measure requests of one delta and of many; the least of several rounds counts."""
    short_us = await _added_us(1, requests)
    long_us = await _added_us(_MANY_DELTAS, max(requests // 20, 1))
    return Overhead(request_us=short_us, delta_us=(long_us - short_us) / (_MANY_DELTAS - 1))


async def _added_us(deltas: int, requests: int) -> float:
    provider = InstantProvider(deltas)
    gateway = Gateway([provider], SystemClock())
    conversation = Conversation.of(UserMessage(text="a question of some length " * 10))
    request = GenerateRequest(conversation=conversation, model="model")
    through = await _least_us(lambda: _drained(gateway.stream(request)), requests)
    bare = await _least_us(lambda: _drained(provider.stream(request)), requests)
    return through - bare


async def _least_us(once: Callable[[], Awaitable[None]], requests: int) -> float:
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        for _ in range(requests):
            await once()
        rounds.append((time.process_time() - began_s) / requests * 1e6)
    return min(rounds)


async def _drained(stream: AsyncGenerator[StreamEvent]) -> None:
    async with aclosing(stream) as events:
        async for _ in events:
            pass


def main() -> None:
    """Print what was measured."""
    overhead = asyncio.run(measure())
    print(f"gateway: {overhead.request_us:.0f} us a request, {overhead.delta_us:.1f} us a delta")


if __name__ == "__main__":
    main()
