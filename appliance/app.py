"""The composition root: settings in, a wired appliance out. The only place that builds collaborators."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from appliance.config import Settings
from appliance.core.clock import SystemClock
from appliance.core.errors import StorageError
from appliance.core.ports import Clock, Embedder, Provider
from appliance.core.requests import LOCAL_OWNER
from appliance.gateway import Gateway, GatewayPolicy
from appliance.providers.llama_cpp import LlamaCppProvider
from appliance.providers.local_models import resolver_of
from appliance.providers.script import ScriptedModel
from appliance.providers.script_file import read_script_file
from appliance.providers.scripted import ScriptedProvider
from appliance.telemetry import Telemetry, open_telemetry

if TYPE_CHECKING:
    from appliance.context.asking import DocumentAsker
    from appliance.gateway.response_cache import ResponseCache
    from appliance.jobs.extract import Extractor
    from appliance.memory.facts import Facts
    from appliance.providers.openai_http.provider import OpenAiHttpProvider
    from appliance.retrieval.chunking import ChunkSettings
    from appliance.retrieval.library import Library
    from appliance.retrieval.rerank import ClosableReranker
    from appliance.storage.database import Database

DEMONSTRATION = ScriptedModel(name="scripted:echo")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appliance:
    """Everything a front end needs. Use it as an async context, so that models are unloaded at the end."""

    settings: Settings
    gateway: Gateway
    clock: Clock
    telemetry: Telemetry
    local_models: LlamaCppProvider

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End running requests, unload models, and keep the last spans."""
        await self.gateway.close()
        await asyncio.to_thread(self.telemetry.close)

    def open_library(self, chunking: ChunkSettings | None = None) -> Library:
        """Open the library of documents; it is not checked yet, and the caller closes it.

        Raises:
            ModelNotFoundError: the embedder is not on this machine, or is none; says how to get one.
            StorageError: the data folder cannot be used.
        """
        return open_library(self.settings, chunking)

    async def forget_owner(self, owner: str) -> int:
        """Drop what running models and the response cache keep of an owner; return how many answers went."""
        await self.local_models.forget_owner(owner)
        return await asyncio.to_thread(self.gateway.forget_owner, owner)

    def document_asker(self, library: Library) -> DocumentAsker:
        """Answer questions from the documents of a library."""
        from appliance.context.asking import DocumentAsker

        return DocumentAsker(self.gateway, library, telemetry=self.telemetry)

    def extractor(self, library: Library) -> Extractor:
        """Take fields out of the documents of a library."""
        from appliance.jobs.extract import Extractor

        return Extractor(self.gateway, library.store)


def open_library(settings: Settings, chunking: ChunkSettings | None = None) -> Library:
    """Open the library of documents of these settings; it is not checked yet.

    Raises:
        ModelNotFoundError: the embedder is not on this machine; says how to get it.
        StorageError: the data folder cannot be used.
    """
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore
    from appliance.retrieval.library import Library
    from appliance.retrieval.opening import open_embedder

    local = Catalog(ModelStore(settings.models_dir)).local(settings.embedder)
    return Library.over(
        settings.data_dir,
        open_embedder(local),
        embedder_languages=local.card.languages,
        reranker=open_reranker(settings),
        index_uri=settings.index_uri,
        language=settings.text_language,
        chunking=chunking,
    )


def open_reranker(settings: Settings) -> ClosableReranker | None:
    """Return the reranker of the settings, loaded by the first search; None when none is named.

    Raises:
        ModelNotFoundError: it is not on this machine, or orders no passages.
    """
    if not settings.reranker:
        return None
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore
    from appliance.retrieval import opening
    from appliance.retrieval.rerank import LateReranker

    local = Catalog(ModelStore(settings.models_dir)).local(settings.reranker)
    opening.check_kind(local, "rerank")
    return LateReranker(lambda: opening.open_reranker(local))


def open_facts(settings: Settings, database: Database, *, owner: str = LOCAL_OWNER) -> Facts:
    """Open the long-term facts of an owner; the embedder is loaded when a fact is first embedded."""
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore
    from appliance.memory.facts import Facts
    from appliance.retrieval.late_embedder import LateEmbedder

    def load() -> Embedder:
        from appliance.retrieval.opening import open_embedder

        return open_embedder(Catalog(ModelStore(settings.models_dir)).local(settings.embedder))

    return Facts(database, LateEmbedder(load), owner=owner)


def open_remote_providers(settings: Settings, clock: Clock) -> list[OpenAiHttpProvider]:
    """Make a provider of each server in the configuration; nothing is connected yet."""
    if not settings.providers:
        return []
    from appliance.providers.openai_http.provider import OpenAiHttpProvider

    return [
        OpenAiHttpProvider(
            server, clock, is_offline=settings.offline, cache_folder=settings.cache_dir / "providers"
        )
        for server in settings.providers.values()
    ]


def gateway_policy(settings: Settings) -> GatewayPolicy:
    """Return what the settings say about routing, limits, retry and prices; offline, no data leaves the machine."""
    return GatewayPolicy(
        routes=settings.routes,
        privacy="this_machine" if settings.offline else "elsewhere",
        limits=settings.limits,
        retry=settings.retry,
        prices=settings.prices,
    )


def open_response_cache(settings: Settings) -> ResponseCache | None:
    """Open the stored answers if they are switched on; without a usable file the appliance does without."""
    if not settings.response_cache:
        return None
    from appliance.gateway.response_cache import ResponseCache

    try:
        return ResponseCache(
            settings.cache_dir,
            ttl_s=settings.response_cache_ttl_s,
            max_bytes=settings.response_cache_bytes,
        )
    except StorageError as exc:
        _log.warning("answers are not stored: %s", exc.message)
        return None


def build_appliance(settings: Settings, *, clock: Clock | None = None) -> Appliance:
    """Wire an appliance. Nothing is loaded yet: a model is when it is first asked."""
    used_clock = clock or SystemClock()
    scripts = read_script_file(settings.script) if settings.script else []
    local_models = LlamaCppProvider(
        resolver_of(settings),
        used_clock,
        max_loaded_models=settings.max_loaded_models,
        keep_alive_s=settings.keep_alive_s,
    )
    providers: list[Provider] = [
        *open_remote_providers(settings, used_clock),
        ScriptedProvider([DEMONSTRATION, *scripts], used_clock),
        local_models,
    ]
    telemetry = open_telemetry(settings, used_clock)
    gateway = Gateway(
        providers,
        used_clock,
        policy=gateway_policy(settings),
        cache=open_response_cache(settings),
        telemetry=telemetry,
    )
    return Appliance(
        settings=settings,
        gateway=gateway,
        clock=used_clock,
        telemetry=telemetry,
        local_models=local_models,
    )
