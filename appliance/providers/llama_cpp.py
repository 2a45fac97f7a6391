"""Models of this machine: one engine each, started late, bounded in number, unloaded when idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import isinf
from typing import Protocol

from appliance.core.capabilities import Capability, ProviderCapabilities
from appliance.core.errors import (
    ApplianceError,
    CancelledRequestError,
    ProviderUnavailableError,
    RateLimitedError,
)
from appliance.core.events import Completed, Failed, LoadProgress, StreamEvent
from appliance.core.needs import check_needs
from appliance.core.ports import Clock
from appliance.core.requests import GenerateRequest
from appliance.core.usage import Timings

# What the engine holds to, whatever a card declares of the model.
SERVED: frozenset[Capability] = frozenset(("chat", "reasoning", "streaming_usage"))
# What the engine does with any model that can chat: code holds the answer to its form and reads its logits.
ENFORCED: frozenset[Capability] = frozenset(
    ("json_schema", "tools", "parallel_tools", "logprobs", "raw_prompt", "open_turn")
)

KEPT_NAMES = 256
SHOWN_LOAD_STEP = 0.01

OnLoadProgress = Callable[[float], None]


class EngineHandle(Protocol):
    """What this provider needs of an engine; `appliance.engine.client.Engine` is one."""

    async def start(self) -> object:
        """Load the model unless it is loaded."""
        ...

    def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Answer a request; ends with one `Completed` or `Failed`."""
        ...

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt's tokens."""
        ...

    async def tokenize(self, text: str) -> list[int]:
        """Return the tokens of plain text; the text of control tokens stays text."""
        ...

    async def forget_owner(self, owner: str) -> None:
        """Drop every prefix of an owner, in memory and on disk."""
        ...

    async def close(self) -> None:
        """Unload the model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model whose weights are here. `context_window` is what it will be loaded with."""

    name: str
    digest: str
    context_window: int
    capabilities: frozenset[Capability]
    open_engine: Callable[[OnLoadProgress], EngineHandle]
    parallel: int = 0


Resolve = Callable[[str], ServedModel]
"""Finds a model by the name a user wrote, or raises ModelNotFoundError."""


class LlamaCppProvider:
    """Runs local models through engines. One stays loaded until idle for `keep_alive_s` or room is needed."""

    def __init__(
        self, resolve: Resolve, clock: Clock, *, max_loaded_models: int = 2, keep_alive_s: float = 300.0
    ) -> None:
        self._resolve = resolve
        self._clock = clock
        self._max_loaded_models = max_loaded_models
        self._keep_alive_s = keep_alive_s
        self._loaded: dict[str, _LoadedModel] = {}
        self._resolved: dict[str, ServedModel] = {}
        self._lock = asyncio.Lock()
        self._unloads: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """The provider's name, as it stands in results."""
        return "llama_cpp"

    async def capabilities(self, model: str) -> ProviderCapabilities:
        """Say what a local model can do here.

        Raises:
            ModelNotFoundError: no model of that name is on this machine.
        """
        return _capabilities_of(await self._find(model))

    async def load(self, model: str) -> None:
        """Load a model unless it is loaded."""
        loaded = await self._acquire(await self._find(model))
        try:
            await loaded.load()
        finally:
            self._release(loaded)

    async def unload(self, model: str) -> None:
        """Unload a model that is idle; nothing happens when it is not loaded.

        Raises:
            RateLimitedError: it is answering.
        """
        found = await self._find(model)
        async with self._lock:
            loaded = self._loaded.get(found.name)
            if loaded is None:
                return
            if loaded.users:
                raise RateLimitedError(
                    f"{found.name} is in use", retry_after_s=5.0, hint="wait for its answer, or stop it"
                )
            await self._unload(loaded)

    async def tokenize(self, model: str, text: str) -> list[int]:
        """Return the ids of a text's tokens; loads the model if needed.

        Raises:
            ModelNotFoundError: no model of that name is on this machine.
        """
        loaded = await self._acquire(await self._find(model))
        try:
            await loaded.load()
            return await loaded.engine.tokenize(text)
        finally:
            self._release(loaded)

    async def forget_owner(self, owner: str) -> None:
        """Drop every prefix of an owner that a loaded model keeps."""
        for loaded in tuple(self._loaded.values()):
            loaded.users += 1
            try:
                await loaded.load()
                await loaded.engine.forget_owner(owner)
            finally:
                self._release(loaded)

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt's tokens; loads the model if needed."""
        loaded = await self._acquire(await self._find(request.model))
        try:
            await loaded.load()
            return await loaded.engine.count_tokens(request)
        finally:
            self._release(loaded)

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Answer a request, loading its model first if needed."""
        started_s = self._clock.now_s()
        try:
            model = await self._find(request.model)
            check_needs(request, _capabilities_of(model))
            loaded = await self._acquire(model)
        except ApplianceError as exc:
            yield Failed(failure=exc.to_failure(), timings=Timings(total_s=self._clock.now_s() - started_s))
            return
        try:
            async with aclosing(self._answer(loaded, request, started_s)) as events:
                async for event in events:
                    yield event
        finally:
            self._release(loaded)

    async def close(self) -> None:
        """Unload every model; running requests end as cancelled."""
        self._is_closed = True
        async with self._lock:
            loaded_models, self._loaded = list(self._loaded.values()), {}
        await asyncio.gather(*(loaded.close() for loaded in loaded_models))
        for unload in tuple(self._unloads):
            unload.cancel()
        await asyncio.gather(*self._unloads, return_exceptions=True)

    async def _answer(
        self, loaded: _LoadedModel, request: GenerateRequest, started_s: float
    ) -> AsyncGenerator[StreamEvent]:
        try:
            async with aclosing(loaded.load_progress()) as fractions:
                async for fraction in fractions:
                    yield LoadProgress(fraction=fraction)
        except ApplianceError as exc:
            waited_s = self._clock.now_s() - started_s
            yield Failed(failure=exc.to_failure(), timings=Timings(load_s=waited_s, total_s=waited_s))
            return
        load_s = self._clock.now_s() - started_s
        async with aclosing(loaded.engine.stream(replace(request, model=loaded.model.name))) as events:
            async for event in events:
                yield self._with_load(event, load_s)

    def _with_load(self, event: StreamEvent, load_s: float) -> StreamEvent:
        """Count the wait for the model; an engine that this provider closed did not crash."""
        if not isinstance(event, Completed | Failed):
            return event
        if self._is_closed and isinstance(event, Failed) and event.failure.kind == "engine_crashed":
            event = replace(event, failure=CancelledRequestError("the model was unloaded").to_failure())
        timings = event.timings
        return replace(
            event,
            timings=replace(
                timings,
                load_s=timings.load_s + load_s,
                ttft_s=timings.ttft_s + load_s if timings.ttft_s else 0.0,
                total_s=timings.total_s + load_s,
            ),
        )

    async def _find(self, name: str) -> ServedModel:
        """Resolve a name; while its model is loaded that needs no look at the disk."""
        known = self._resolved.get(name)
        if known is not None and known.name in self._loaded:
            return self._loaded[known.name].model
        if len(self._resolved) >= KEPT_NAMES:
            self._resolved.clear()
        self._resolved[name] = await asyncio.to_thread(self._resolve, name)
        return self._resolved[name]

    async def _acquire(self, model: ServedModel) -> _LoadedModel:
        async with self._lock:
            if self._is_closed:
                raise ProviderUnavailableError("the models of this machine are being unloaded")
            loaded = self._loaded.get(model.name)
            if loaded is None:
                await self._make_room()
                # Opening reads the file's header and plans memory, which is work for a thread.
                loaded = await asyncio.to_thread(_LoadedModel, model)
                self._loaded[model.name] = loaded
            loaded.users += 1
            loaded.last_used_s = self._clock.now_s()
            return loaded

    async def _make_room(self) -> None:
        while len(self._loaded) >= self._max_loaded_models:
            idle = [loaded for loaded in self._loaded.values() if loaded.users == 0]
            if not idle:
                raise RateLimitedError(
                    f"{len(self._loaded)} models are loaded and busy, and no more may be",
                    retry_after_s=5.0,
                    hint="wait for an answer to end, or raise the setting max_loaded_models",
                )
            await self._unload(min(idle, key=lambda loaded: loaded.last_used_s))

    async def _unload(self, loaded: _LoadedModel) -> None:
        self._loaded.pop(loaded.model.name, None)
        await asyncio.shield(asyncio.ensure_future(loaded.close()))

    def _release(self, loaded: _LoadedModel) -> None:
        loaded.users -= 1
        loaded.last_used_s = self._clock.now_s()
        if loaded.users == 0 and not self._is_closed and not isinf(self._keep_alive_s):
            unload = asyncio.ensure_future(self._unload_when_idle(loaded, loaded.last_used_s))
            self._unloads.add(unload)
            unload.add_done_callback(self._unloads.discard)

    async def _unload_when_idle(self, loaded: _LoadedModel, idle_since_s: float) -> None:
        await self._clock.sleep(self._keep_alive_s)
        async with self._lock:
            is_idle = loaded.users == 0 and loaded.last_used_s == idle_since_s
            if is_idle and self._loaded.get(loaded.model.name) is loaded:
                await self._unload(loaded)


class _LoadedModel:
    """An engine, who uses it, and how far its loading is."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self.users = 0
        self.last_used_s = 0.0
        self._fraction = 0.0
        self._changed = asyncio.Event()
        self._loading: asyncio.Task[object] | None = None
        self.engine = model.open_engine(self._note_progress)

    async def load(self) -> None:
        """Wait until the model is loaded."""
        async with aclosing(self.load_progress()) as fractions:
            async for _ in fractions:
                pass

    async def load_progress(self) -> AsyncGenerator[float]:
        """Yield how far loading is until it is done; whoever stops listening does not stop the loading.

        Raises:
            ApplianceError: the model cannot be loaded.
        """
        loading = self._load_task()
        shown = -SHOWN_LOAD_STEP
        while not loading.done():
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait((loading, changed), return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if not loading.done() and self._fraction >= shown + SHOWN_LOAD_STEP:
                shown = self._fraction
                yield shown
        await loading

    async def close(self) -> None:
        await self.engine.close()

    def _load_task(self) -> asyncio.Task[object]:
        if self._loading is None or self._loading.done():
            self._fraction = 0.0
            self._loading = asyncio.create_task(self._start())
            self._loading.add_done_callback(_retrieve)
        return self._loading

    async def _start(self) -> object:
        return await self.engine.start()

    def _note_progress(self, fraction: float) -> None:
        self._fraction = fraction
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _retrieve(loading: asyncio.Task[object]) -> None:
    """Mark a failure as seen: everyone who asked for the model may have gone by now."""
    if not loading.cancelled():
        loading.exception()


def _capabilities_of(model: ServedModel) -> ProviderCapabilities:
    enforced = ENFORCED if "chat" in model.capabilities else frozenset()
    return ProviderCapabilities(
        capabilities=(model.capabilities & SERVED) | enforced,
        context_window=model.context_window,
        placement="this_machine",
        digest=model.digest,
        parallel=model.parallel,
    )
