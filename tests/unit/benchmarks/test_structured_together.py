"""Constrained and free answers at once, of an engine that answers without a model."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import cast

import pytest

from appliance.core.events import Completed, ModelIdentity, StreamEvent, TextDelta
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings, Usage
from appliance.engine.client import Engine
from benchmarks.structured import prepare
from benchmarks.structured_cases import CASES
from benchmarks.structured_together import Together, measure_together


class TextEngine:
    """Answers everything with the same text."""

    pid = None
    delivery_lags_s: deque[float]

    async def stream(self, _request: GenerateRequest) -> AsyncIterator[StreamEvent]:
        yield TextDelta(text="no JSON")
        yield Completed(
            model=ModelIdentity(provider="test", name="m"),
            finish_reason="stop",
            usage=Usage(output_tokens=2),
            timings=Timings(decode_s=1.0),
        )


async def _measured(must_end: Callable[[], bool]) -> Together | None:
    prepared = await prepare(CASES[0], 0, "m")
    engine = cast("Engine", TextEngine())
    return await measure_together(
        engine, [prepared.constrained], 4, 5, say=lambda _text: None, must_end=must_end
    )


# It looks before each of the two that are asked alone and before each round.
@pytest.mark.parametrize(("looks", "rounds"), [(2, 0), (3, 1), (5, 3), (99, 5)])
async def test_a_mixture_ends_with_the_time_and_keeps_whole_rounds(looks: int, rounds: int) -> None:
    looked = count(1)

    together = await _measured(lambda: next(looked) > looks)

    assert (len(together.rounds) if together else 0) == rounds


async def test_a_mixture_without_a_whole_round_is_none() -> None:
    assert await _measured(lambda: True) is None
