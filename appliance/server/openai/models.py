"""`GET /v1/models`: what can be asked here."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from appliance.catalog.catalog import Catalog
from appliance.catalog.store import ModelStore
from appliance.config import Settings
from appliance.core.capabilities import ModelCard
from appliance.core.errors import ModelNotFoundError
from appliance.server.services import NEEDS_CHAT, ServicesOf
from appliance.server.wire import JsonObject

router = APIRouter(tags=["OpenAI"])


@router.get("/v1/models", dependencies=[NEEDS_CHAT])
async def list_models(services: ServicesOf) -> JsonObject:
    """List the models of this machine, the usual one first, then routes and models of other servers by name."""
    settings = services.appliance.settings
    models = await asyncio.to_thread(_stored_models, settings)
    return {"object": "list", "data": [*models, *_named_models(settings)]}


@router.get("/v1/models/{name:path}", dependencies=[NEEDS_CHAT])
async def show_model(name: str, services: ServicesOf) -> JsonObject:
    """Show one model.

    Raises:
        ModelNotFoundError: it is not here.
    """
    name = services.model(name)
    models = await asyncio.to_thread(_stored_models, services.appliance.settings)
    for model in models:
        if model["id"] == name:
            return model
    offered = await services.appliance.gateway.capabilities(name)
    return {
        **_model_json(name, 0),
        "capabilities": sorted(offered.capabilities),
        "context_window": offered.context_window,
    }


def _stored_models(settings: Settings) -> list[JsonObject]:
    catalog = Catalog(ModelStore(settings.models_dir))
    found = {
        manifest.card.id: {
            **_model_json(manifest.card.id, _stored_s(manifest.files[0].modified_ns)),
            "capabilities": sorted(manifest.card.capabilities),
            "context_window": _window_here(manifest.card, settings),
            "licence": manifest.card.licence,
            "digest": manifest.digest,
        }
        for manifest in catalog.store.manifests()
    }
    try:
        default = catalog.card(settings.model).id
    except ModelNotFoundError:
        default = settings.model
    return [found[name] for name in sorted(found, key=lambda name: (name != default, name))]


def _window_here(card: ModelCard, settings: Settings) -> int:
    """Return what a request may hold here: models that write are loaded with the window of the settings."""
    if "embed" in card.capabilities or not card.context_window:
        return card.context_window
    return min(card.context_window, settings.context_window)


def _named_models(settings: Settings) -> list[JsonObject]:
    """Return what the configuration names; other servers are not asked for theirs."""
    routes = [{**_model_json(name, 0), "owned_by": "route"} for name in settings.routes]
    remote = [
        {**_model_json(f"{server.name}/{model.name}", 0), "owned_by": server.name}
        for server in settings.providers.values()
        for model in server.models
    ]
    return [*routes, *remote]


def _model_json(name: str, created_s: int) -> JsonObject:
    return {"id": name, "object": "model", "created": created_s, "owned_by": "appliance"}


def _stored_s(modified_ns: int) -> int:
    return modified_ns // 1_000_000_000
