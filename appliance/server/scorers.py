"""Embedders and rerankers of this machine, loaded when first asked for and kept, one of each name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from appliance.catalog.catalog import Catalog, LocalModel
from appliance.catalog.names import names_a_file
from appliance.catalog.store import ModelStore
from appliance.config import Settings
from appliance.core.capabilities import Capability
from appliance.core.errors import ApplianceError, ModelNotFoundError
from appliance.retrieval.opening import PassageEmbedder, check_kind, open_embedder, open_reranker
from appliance.retrieval.rerank import ClosableReranker


class _Closable(Protocol):
    def close(self) -> None: ...


_Loaded = TypeVar("_Loaded", bound=_Closable)

_KEPT = 2


class LateModels(Generic[_Loaded]):
    """Loads models of one kind by name; the least recently loaded leaves when there are too many."""

    def __init__(
        self, find: Callable[[str | None], LocalModel], load: Callable[[LocalModel], _Loaded]
    ) -> None:
        self._find = find
        self._load = load
        self._loaded: dict[str, _Loaded] = {}
        self._lock = threading.Lock()

    async def get(self, name: str | None) -> _Loaded:
        """Return a model, loaded.

        Raises:
            ModelNotFoundError: there is none of this name and kind here.
        """
        return await asyncio.to_thread(self._get, name)

    def _get(self, name: str | None) -> _Loaded:
        local = self._find(name)
        with self._lock:
            if local.id not in self._loaded:
                while len(self._loaded) >= _KEPT:
                    self._loaded.pop(next(iter(self._loaded))).close()
                self._loaded[local.id] = self._load(local)
            return self._loaded[local.id]

    def close(self) -> None:
        """Release every model."""
        with self._lock:
            while self._loaded:
                self._loaded.popitem()[1].close()


def embedders_of(settings: Settings) -> LateModels[PassageEmbedder]:
    """Return the embedders; the one of the settings answers when none is named."""
    return LateModels(lambda name: _of_kind(settings, name or settings.embedder, "embed"), open_embedder)


def rerankers_of(settings: Settings) -> LateModels[ClosableReranker]:
    """Return the rerankers; when none is named, the one of the settings, or else the first of the store."""
    return LateModels(
        lambda name: _of_kind(settings, name or settings.reranker or _stored_reranker(settings), "rerank"),
        open_reranker,
    )


def check_no_file(name: str) -> None:
    """Refuse a name that is the path of a file.

    Raises:
        ModelNotFoundError: whether there is such a file is not said.
    """
    if names_a_file(name):
        raise ModelNotFoundError(
            f"there is no model {name[:200]!r}", hint="GET /v1/models lists them; files are not asked by path"
        )


def _of_kind(settings: Settings, name: str, kind: Capability) -> LocalModel:
    if name not in (settings.embedder, settings.reranker):
        check_no_file(name)
    try:
        local = Catalog(ModelStore(settings.models_dir)).local(name)
    except ModelNotFoundError:
        raise
    except ApplianceError as exc:
        raise ModelNotFoundError(exc.message, hint=exc.hint, model=name) from exc
    check_kind(local, kind)
    return local


def _stored_reranker(settings: Settings) -> str:
    store = ModelStore(settings.models_dir)
    names = [manifest.card.id for manifest in store.manifests() if "rerank" in manifest.card.capabilities]
    if not names:
        raise ModelNotFoundError(
            "no reranker is on this machine",
            hint="`appliance list` shows some that `appliance pull` fetches; then name one as model",
        )
    return names[0]
