"""The memory plan against the peak that a real worker reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.catalog.gguf import read_gguf
from appliance.catalog.memory_plan import LoadShape, plan_memory
from appliance.engine.used_features import read_used_features
from tests.engine_calls import answer, ask, closing_engine, open_engine

PLAIN_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
MOST_OFF = 0.10


@pytest.mark.slow
@pytest.mark.parametrize("model", ["starter_weights", "gemma_weights"])
@pytest.mark.parametrize("context_tokens, parallel", [(2048, 1), (2048, 4)])
async def test_the_plan_is_within_a_tenth_of_the_peak(
    model: str, context_tokens: int, parallel: int, request: pytest.FixtureRequest
) -> None:
    weights: Path = request.getfixturevalue(model)
    shape = LoadShape(context_tokens=context_tokens, sequences=parallel)
    plan = plan_memory(read_gguf(weights), shape, cpu_features=read_used_features())
    engine = open_engine(
        weights, context_window=context_tokens, parallel=parallel, chat_template=PLAIN_TEMPLATE
    )
    async with closing_engine(engine):
        await answer(engine, ask("1 2 3 " * (context_tokens // 8), max_tokens=8))
        peak = (await engine.stats()).peak_resident_bytes
    assert abs(plan.total_bytes - peak) / peak < MOST_OFF
