"""Short ways to open an engine and to ask it, for the tests of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from appliance.core.events import Completed, StreamEvent, TextDelta
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.engine.client import Engine
from appliance.engine.params import EngineParams


def open_engine(weights: Path, **changes: object) -> Engine:
    """An engine with a small context; nothing runs before the first call."""
    params = EngineParams(
        model_path=weights,
        model_name="starter",
        model_digest="0" * 64,
        context_window=2048,
        parallel=8,
        threads=1,
    )
    return Engine(replace(params, **changes))  # type: ignore[arg-type]


@asynccontextmanager
async def closing_engine(engine: Engine) -> AsyncIterator[None]:
    """Close the engine at the end."""
    try:
        yield
    finally:
        await engine.close()


def ask(text: str, *, system: str = "", owner: str = "local", **sampling: object) -> GenerateRequest:
    """A greedy request for a short answer."""
    sampling.setdefault("temperature", 0.0)
    sampling.setdefault("max_tokens", 24)
    messages = [SystemMessage(text=system)] if system else []
    return GenerateRequest(
        conversation=Conversation.of(*messages, UserMessage(text=text)),
        model="starter",
        sampling=SamplingParams(**sampling),  # type: ignore[arg-type]
        owner=owner,
    )


async def answer(engine: Engine, request: GenerateRequest) -> tuple[str, Completed]:
    """The text of an answer that must come, and how it ended."""
    events = [event async for event in engine.stream(request)]
    last = events[-1]
    assert isinstance(last, Completed), last
    return text_of(events), last


def text_of(events: list[StreamEvent]) -> str:
    """All text deltas joined."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))
