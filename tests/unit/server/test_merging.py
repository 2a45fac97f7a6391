"""Streams become one: each keeps its order, the first failure ends all, and closing closes all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from appliance.core.errors import Failure
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    ModelIdentity,
    StreamEvent,
    TextDelta,
)
from appliance.core.usage import FinishReason, Timings, Usage
from appliance.server.merging import merged, settled

END = Completed(
    finish_reason="stop", usage=Usage(), timings=Timings(), model=ModelIdentity(provider="p", name="m")
)


class Streams:
    """Streams of texts that count how many of them are open."""

    def __init__(self) -> None:
        self.open = 0

    async def of(self, *events: StreamEvent | None) -> AsyncGenerator[StreamEvent]:
        """Yield events; `None` waits for ever."""
        self.open += 1
        try:
            for event in events:
                await asyncio.sleep(0)
                if event is None:
                    await asyncio.Event().wait()
                else:
                    yield event
        finally:
            self.open -= 1


def texts(*words: str) -> list[StreamEvent]:
    return [*(TextDelta(text=word) for word in words), END]


async def test_every_event_comes_once_and_each_stream_keeps_its_order() -> None:
    streams = Streams()
    seen: dict[int, list[str]] = {0: [], 1: [], 2: []}

    async for number, event in merged([streams.of(*texts(f"{n}a", f"{n}b", f"{n}c")) for n in range(3)]):
        if isinstance(event, TextDelta):
            seen[number].append(event.text)

    assert seen == {n: [f"{n}a", f"{n}b", f"{n}c"] for n in range(3)}
    assert streams.open == 0


async def test_the_first_failure_is_the_last_event() -> None:
    streams = Streams()
    failed = Failed(failure=Failure(kind="internal", message="no"))

    events = [each async for each in merged([streams.of(TextDelta(text="a"), None), streams.of(failed)])]

    assert events[-1] == (1, failed)
    assert streams.open == 0


async def test_closing_early_closes_every_stream() -> None:
    streams = Streams()
    events = merged([streams.of(TextDelta(text="a"), None), streams.of(None)])
    await anext(events)

    await events.aclose()

    assert streams.open == 0


async def test_a_stream_that_raises_is_a_failure_and_no_silence() -> None:
    async def broken() -> AsyncGenerator[StreamEvent]:
        yield TextDelta(text="a")
        raise ValueError("a bug")

    events = [event async for _, event in merged([broken()])]

    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind == "internal"


@pytest.mark.parametrize("reason", ["cancelled", "error"])
async def test_an_answer_that_was_stopped_is_no_whole_one(reason: FinishReason) -> None:
    streams = Streams()

    events = [event async for _, event in merged([streams.of(replace(END, finish_reason=reason))])]

    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind == "provider_unavailable"


async def test_the_head_ends_with_the_first_event_that_is_no_loading() -> None:
    streams = Streams()
    events = merged([streams.of(LoadProgress(fraction=0.5), TextDelta(text="a"), None)])

    head = await settled(events)
    await events.aclose()

    assert head == [(0, LoadProgress(fraction=0.5)), (0, TextDelta(text="a"))]
