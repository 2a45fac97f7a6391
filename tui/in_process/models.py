"""Models of the terminal interface: the catalogue with fit, fetching, checking, loading."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator

from appliance.catalog.cards import load_cards
from appliance.catalog.catalog import Catalog
from appliance.catalog.free_memory import read_free_bytes
from appliance.catalog.gguf import GgufInfo, read_gguf
from appliance.catalog.load_shape import load_shape
from appliance.catalog.manifest import Manifest
from appliance.catalog.memory_plan import LoadShape, MemoryPlan, plan_memory
from appliance.catalog.progress import TransferProgress
from appliance.catalog.store import ModelStore, human_bytes
from appliance.catalog.verifying import verify
from appliance.config import Settings
from appliance.core.capabilities import ModelCard
from appliance.core.errors import ApplianceError, ModelNotFoundError
from appliance.engine.used_features import read_used_features
from appliance.gateway import Gateway
from tui.in_process.streaming import Report, reported
from tui.rows import Fit, ModelRow, WorkEvent, WorkLine, WorkProgress

# While only a file's size is known, context and runtime are guessed on top of it.
_GUESSED_OVERHEAD = 1.2
_GUESSED_RUNTIME_BYTES = 300 << 20
_TIGHT_SHARE = 0.8


class CatalogueOfModels:
    """`ModelPort` over the model store and the gateway."""

    def __init__(self, settings: Settings, gateway: Gateway) -> None:
        self._settings = settings
        self._gateway = gateway
        self._loaded: set[str] = set()

    async def rows(self) -> list[ModelRow]:
        """Return stored models first, then those that can be fetched, each by size."""
        return await asyncio.to_thread(self._rows)

    async def describe(self, name: str) -> str:
        """Return card and memory plan of a model as lines."""
        return await asyncio.to_thread(self._describe, name)

    def pull(self, name: str) -> AsyncGenerator[WorkEvent, None]:
        """Fetch a model and check it."""

        def work(report: Report, stop: threading.Event) -> None:  # noqa: ARG001
            pulled = self._catalog().pull(
                name, is_offline=self._settings.offline, report=lambda progress: report(_progress(progress))
            )
            what = f"{len(pulled.fetched_files)} file(s), {human_bytes(pulled.fetched_bytes)}"
            report(WorkLine(text=f"{pulled.model.id}: fetched {what}, sha256 checked"))

        return reported(work)

    def verify(self, name: str) -> AsyncGenerator[WorkEvent, None]:
        """Hash a stored model again."""

        def work(report: Report, stop: threading.Event) -> None:  # noqa: ARG001
            catalog = self._catalog()
            manifest = catalog.manifest(name)
            if manifest is None:
                raise ModelNotFoundError(f"{name} is not in the store", hint=f"`appliance pull {name}`")
            for outcome in verify(catalog.store, [manifest], lambda progress: report(_progress(progress))):
                is_bad = outcome.state != "good"
                hint = f"; {outcome.hint}" if is_bad else ""
                report(WorkLine(text=f"{outcome.file}: {outcome.state}{hint}", is_bad=is_bad))

        return reported(work)

    async def load(self, name: str) -> None:
        """Load a model, so that the next question need not wait."""
        await self._gateway.load(name)
        self._loaded.add(name)

    async def unload(self, name: str) -> None:
        """Unload a model, unless it is answering."""
        await self._gateway.unload(name)
        self._loaded.discard(name)

    def _catalog(self) -> Catalog:
        return Catalog(ModelStore(self._settings.models_dir), load_cards(self._settings.data_dir / "cards"))

    def _rows(self) -> list[ModelRow]:
        catalog = self._catalog()
        free, features = read_free_bytes(), read_used_features()
        stored = {manifest.card.id: manifest for manifest in catalog.store.manifests()}
        rows = [self._stored_row(catalog, manifest, free, features) for manifest in stored.values()]
        rows += [
            _row(card, card.size_bytes, fit=_guessed_fit(card.size_bytes, free))
            for card in catalog.cards.values()
            if card.id not in stored
        ]
        return sorted(rows, key=lambda row: (not row.is_on_disk, row.parameters, row.name))

    def _stored_row(
        self, catalog: Catalog, manifest: Manifest, free: int, features: frozenset[str]
    ) -> ModelRow:
        paths = [catalog.store.file_path(file) for file in manifest.files]
        is_whole = all(path.is_file() for path in paths)
        fit = _guessed_fit(manifest.size_bytes, free)
        if is_whole and len(paths) == 1:
            try:
                info = read_gguf(paths[0])
                shape = self._shape(info)
                fit = fit_of(plan_memory(info, shape, free_bytes=free, cpu_features=features))
            except ApplianceError:
                fit = "unknown"
        name = manifest.card.id
        return _row(
            manifest.card,
            manifest.size_bytes,
            is_on_disk=is_whole,
            is_loaded=name in self._loaded,
            fit=fit,
        )

    def _shape(self, info: GgufInfo) -> LoadShape:
        window = self._settings.context_window
        return load_shape(self._settings, context_tokens=min(window, info.context_length or window))

    def _describe(self, name: str) -> str:
        catalog = self._catalog()
        card = catalog.card(name)
        lines = _card_lines(card)
        try:
            local = catalog.local(name)
        except ApplianceError as exc:
            return "\n".join([*lines, "", exc.message, *([exc.hint] if exc.hint else [])])
        lines += [f"sha256          {local.digest or 'not hashed'}", f"path            {local.path}"]
        if local.is_gguf:
            info = read_gguf(local.path)
            plan = plan_memory(info, self._shape(info), cpu_features=read_used_features())
            lines += ["", *_plan_lines(plan)]
        return "\n".join(lines)


def fit_of(plan: MemoryPlan) -> Fit:
    """Say how a memory plan fits: `tight` when it takes most of what is free."""
    if not plan.fits:
        return "no"
    return "tight" if plan.total_bytes > plan.free_bytes * _TIGHT_SHARE else "yes"


def _guessed_fit(size_bytes: int, free: int) -> Fit:
    if not size_bytes:
        return "unknown"
    return "likely" if size_bytes * _GUESSED_OVERHEAD + _GUESSED_RUNTIME_BYTES <= free else "unlikely"


def _row(
    card: ModelCard, size_bytes: int, *, is_on_disk: bool = False, is_loaded: bool = False, fit: Fit
) -> ModelRow:
    return ModelRow(
        name=card.id,
        size_bytes=size_bytes,
        parameters=card.parameters,
        quantisation=card.quantisation,
        context_window=card.context_window,
        licence=card.licence,
        is_on_disk=is_on_disk,
        is_loaded=is_loaded,
        can_chat="chat" in card.capabilities,
        fit=fit,
    )


def _progress(progress: TransferProgress) -> WorkProgress:
    return WorkProgress(
        what=f"{progress.stage} {progress.file}",
        done=progress.done_bytes,
        total=progress.total_bytes,
        note=progress.note,
    )


def _card_lines(card: ModelCard) -> list[str]:
    pairs = [
        ("what", card.description),
        ("family", card.family),
        ("quantisation", card.quantisation),
        ("context window", f"{card.context_window} tokens" if card.context_window else ""),
        ("licence", card.licence),
        ("capabilities", ", ".join(sorted(card.capabilities))),
        ("page", card.homepage),
    ]
    return [card.id, *(f"{name:<16}{value}" for name, value in pairs if value)]


def _plan_lines(plan: MemoryPlan) -> list[str]:
    shape = plan.shape
    parts = [
        ("weights, mapped", plan.weights_bytes),
        ("weights, reordered", plan.repacked_bytes),
        (f"KV cache ({shape.key_type})", plan.kv_cache_bytes),
        ("compute buffers", plan.compute_bytes),
        ("worker and vocabulary", plan.runtime_bytes),
        ("total", plan.total_bytes),
        ("free now", plan.free_bytes),
    ]
    verdict = {"yes": "fits", "tight": "fits, but tightly", "no": "does not fit"}[fit_of(plan)]
    return [
        f"memory for {shape.sequences} × {shape.context_tokens} tokens (predicted peak)",
        *(f"  {name:<24}{human_bytes(size):>10}" for name, size in parts),
        f"  {verdict}; at most {plan.largest_context_tokens} tokens for each of {shape.sequences}",
        f"  beside it, as conversations come: up to {human_bytes(shape.prefix_ram_bytes)} of prefixes",
    ]
