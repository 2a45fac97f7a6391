"""Finds the model a user named on this machine, and says how it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.config import Settings
from appliance.core.errors import InvalidRequestError
from appliance.providers.llama_cpp import EngineHandle, OnLoadProgress, Resolve, ServedModel

if TYPE_CHECKING:
    from appliance.catalog.catalog import LocalModel
    from appliance.engine.params import EngineParams


def resolver_of(settings: Settings) -> Resolve:
    """Return a function that finds models in the store of these settings."""

    def resolve(name: str) -> ServedModel:
        from appliance.catalog.catalog import Catalog
        from appliance.catalog.store import ModelStore

        return served_model(settings, Catalog(ModelStore(settings.models_dir)).local(name))

    return resolve


def served_model(settings: Settings, local: LocalModel) -> ServedModel:
    """Describe a model of the store as it will be served.

    Raises:
        InvalidRequestError: it is no model that the engine loads, or the context window asked is beyond it.
    """
    if not local.is_gguf:
        raise InvalidRequestError(f"{local.id} is no GGUF file, so it cannot chat")
    params = engine_params(settings, local)

    def open_engine(on_load_progress: OnLoadProgress) -> EngineHandle:
        from appliance.engine.client import Engine

        _refuse_what_does_not_fit(settings, params)
        return Engine(params, on_load_progress=on_load_progress)

    return ServedModel(
        name=local.id,
        digest=local.digest,
        context_window=params.context_window,
        capabilities=local.card.capabilities,
        open_engine=open_engine,
        parallel=params.parallel,
    )


def engine_params(settings: Settings, local: LocalModel) -> EngineParams:
    """Translate settings into how the engine loads a model."""
    from appliance.engine.params import EngineParams

    keeps_prefixes = bool(local.digest) and settings.prefix_disk_bytes > 0
    return EngineParams(
        model_path=local.path,
        model_name=local.id,
        model_digest=local.digest,
        context_window=_context_window(settings, local),
        parallel=settings.parallel,
        threads=settings.threads,
        gpu_layers=settings.gpu_layers,
        batch_tokens=settings.batch_tokens,
        ubatch_tokens=settings.ubatch_tokens,
        prefill_chunk_tokens=settings.prefill_chunk_tokens,
        flash_attention=settings.flash_attention,
        kv_type=settings.kv_type,
        chat_template=local.card.chat_template,
        reasoning_tags=local.card.reasoning_tags,
        prefix_dir=settings.state_dir / "prefixes" if keeps_prefixes else None,
        prefix_disk_bytes=settings.prefix_disk_bytes,
        prefix_ram_bytes=settings.prefix_ram_bytes,
        runtime_dir=settings.runtime_dir,
        log_dir=settings.state_dir / "logs",
    )


def _refuse_what_does_not_fit(settings: Settings, params: EngineParams) -> None:
    """Plan the memory before anything is mapped. A build that uses a GPU leaves the split to its driver.

    Raises:
        NotEnoughMemoryError: says the largest context that fits.
        ModelFileError: the file is damaged, hostile or no GGUF.
    """
    from appliance.catalog.gguf import read_gguf
    from appliance.catalog.load_shape import load_shape
    from appliance.catalog.memory_plan import plan_memory, require_fit
    from appliance.engine.build_record import read_installed_build
    from appliance.engine.used_features import read_used_features

    info = read_gguf(params.model_path)
    build = read_installed_build()
    if build is not None and build.backend != "cpu" and settings.gpu_layers != 0:
        return
    shape = load_shape(settings, context_tokens=params.context_window)
    require_fit(plan_memory(info, shape, cpu_features=read_used_features()), params.model_name)


def _context_window(settings: Settings, local: LocalModel) -> int:
    """A stated window beyond the model's own is refused; the default one shrinks to fit."""
    trained = local.card.context_window
    if not trained or settings.context_window <= trained:
        return settings.context_window
    if settings.source_of("context_window") == "default":
        return trained
    raise InvalidRequestError(
        f"{local.id} was trained for {trained} tokens of context; {settings.context_window} were asked",
        hint=f"ask for at most {trained}, or choose a model with a larger context window",
        context_window=trained,
    )
