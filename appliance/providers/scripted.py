"""A provider that plays scripts: for tests, demonstrations and screens, with no weights and no chance."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence

from appliance.core.capabilities import ProviderCapabilities
from appliance.core.errors import ApplianceError, ModelNotFoundError, ProviderUnavailableError
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    ModelIdentity,
    PrefillProgress,
    StreamEvent,
)
from appliance.core.needs import check_needs
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings
from appliance.providers.performance import Performance
from appliance.providers.script import ScriptedModel, prompt_tokens_of

KEPT_OWNERS = 64
KEPT_PREFIXES_PER_OWNER = 8


class ScriptedProvider:
    """Plays scripted models. Pauses go through the clock; cached tokens counted per owner."""

    def __init__(self, models: Sequence[ScriptedModel], clock: Clock) -> None:
        self._models = {model.name: model for model in models}
        self._clock = clock
        self._loaded: set[str] = set()
        self._prefixes = _KeptPrefixes()
        self._is_closed = asyncio.Event()

    @property
    def name(self) -> str:
        """The provider's name, as it stands in results."""
        return "scripted"

    async def capabilities(self, model: str) -> ProviderCapabilities:
        """Say what the script declares.

        Raises:
            ModelNotFoundError: there is no script of that name.
        """
        scripted = self._model(model)
        return ProviderCapabilities(
            capabilities=scripted.capabilities,
            context_window=scripted.context_window,
            placement="this_process",
            digest=scripted.digest,
        )

    async def load(self, model: str) -> None:
        """Let the script's loading time pass, once."""
        scripted = self._model(model)
        if model not in self._loaded:
            self._loaded.add(model)
            await self._pause(scripted.load_s)

    async def unload(self, model: str) -> None:
        """Let the script's loading time pass again before the next answer."""
        self._model(model)
        self._loaded.discard(model)

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt's tokens by the rule of `tokens_of`."""
        self._model(request.model)
        return len(prompt_tokens_of(request.conversation))

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Play the turn that answers the conversation."""
        stopwatch = _Stopwatch(self._clock)
        try:
            model = self._model(request.model)
            performance = await self._prepare(request, model)
        except ApplianceError as exc:
            yield Failed(failure=exc.to_failure(), timings=stopwatch.timings())
            return
        cached_tokens = self._prefixes.longest(request.owner, model.name, performance.prompt)
        needs_load = model.name not in self._loaded
        self._loaded.add(model.name)
        try:
            due_s = self._clock.now_s()
            for beat in performance.beats(cached_tokens=cached_tokens, needs_load=needs_load):
                # As a model in a process of its own, it does not wait for a reader who is slow.
                due_s += beat.pause_s
                await self._pause(due_s - self._clock.now_s())
                if self._is_closed.is_set():
                    break
                if beat.event is not None:
                    stopwatch.note(beat.event)
                    yield beat.event
            yield self._ending(model, performance, stopwatch)
        finally:
            self._prefixes.keep(request.owner, model.name, performance.kept_tokens)

    async def close(self) -> None:
        """Stop; running requests end as cancelled."""
        self._is_closed.set()

    def _model(self, name: str) -> ScriptedModel:
        if name not in self._models:
            raise ModelNotFoundError(f"there is no scripted model {name!r}", model=name)
        return self._models[name]

    async def _prepare(self, request: GenerateRequest, model: ScriptedModel) -> Performance:
        if self._is_closed.is_set():
            raise ProviderUnavailableError("the scripted provider is closed")
        check_needs(request, await self.capabilities(model.name))
        return Performance(request, model)

    async def _pause(self, duration_s: float) -> None:
        """Wait, but no longer than until the provider is closed."""
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        waits = [asyncio.ensure_future(self._clock.sleep(duration_s))]
        waits.append(asyncio.ensure_future(self._wait_closed()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _wait_closed(self) -> None:
        await self._is_closed.wait()

    def _ending(
        self, model: ScriptedModel, performance: Performance, stopwatch: _Stopwatch
    ) -> Completed | Failed:
        usage, timings = performance.usage, stopwatch.timings()
        if performance.failure is not None:
            return Failed(failure=performance.failure, usage=usage, timings=timings)
        return Completed(
            finish_reason="cancelled" if self._is_closed.is_set() else performance.ending,
            usage=usage,
            timings=timings,
            model=ModelIdentity(provider=self.name, name=model.name, digest=model.digest),
        )


class _Stopwatch:
    """Tells the phases of a request apart by the events that end them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.now_s()
        self._loaded_s = self._started_s
        self._prefilled_s: float | None = None
        self._first_delta_s: float | None = None

    def note(self, event: StreamEvent) -> None:
        now_s = self._clock.now_s()
        if isinstance(event, LoadProgress):
            self._loaded_s = now_s
        elif isinstance(event, PrefillProgress):
            self._prefilled_s = now_s
        elif self._first_delta_s is None:
            self._first_delta_s = now_s

    def timings(self) -> Timings:
        now_s = self._clock.now_s()
        prefilled_s = now_s if self._prefilled_s is None else self._prefilled_s
        return Timings(
            load_s=self._loaded_s - self._started_s,
            prefill_s=prefilled_s - self._loaded_s,
            decode_s=now_s - prefilled_s,
            ttft_s=0.0 if self._first_delta_s is None else self._first_delta_s - self._started_s,
            total_s=now_s - self._started_s,
        )


class _KeptPrefixes:
    """The token sequences each owner left behind, newest last, within a bound."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], list[list[str]]] = OrderedDict()

    def keep(self, owner: str, model: str, tokens: list[str]) -> None:
        sequences = self._kept.setdefault((owner, model), [])
        sequences.append(tokens)
        del sequences[:-KEPT_PREFIXES_PER_OWNER]
        self._kept.move_to_end((owner, model))
        while len(self._kept) > KEPT_OWNERS:
            self._kept.popitem(last=False)

    def longest(self, owner: str, model: str, prompt: list[str]) -> int:
        """Return how many tokens of a prompt are kept; the last one is always computed again."""
        sequences = self._kept.get((owner, model), [])
        shared = max((_shared_tokens(sequence, prompt) for sequence in sequences), default=0)
        return min(shared, len(prompt) - 1)


def _shared_tokens(kept: list[str], prompt: list[str]) -> int:
    pairs = zip(kept, prompt, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(kept), len(prompt)))
