"""The models of one server: which there are, what each can do, and what kind of server it is."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import quote

from appliance.config.remote import RemoteModel, RemoteServer
from appliance.core.capabilities import Capability
from appliance.core.errors import ApplianceError, InvalidRequestError, ModelNotFoundError
from appliance.core.ports import Clock
from appliance.providers.openai_http.connection import Connection
from appliance.providers.openai_http.dialects import BY_OWNER, LLAMA_SERVER, OLLAMA, UNKNOWN, Dialect
from appliance.providers.openai_http.foreign_json import at, count_at, list_at, text_at
from appliance.providers.openai_http.probes import Probes

CHAT: frozenset[Capability] = frozenset(("chat",))

_LISTED_FOR_S = 60.0
_ASIDE_S = 10.0
_LOADING_S = 120.0
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as a server lists it. `context_window` 0 is not known."""

    name: str
    dialect: Dialect
    context_window: int = 0
    digest: str = ""
    created: int = 0
    aliases: tuple[str, ...] = ()
    capabilities: frozenset[Capability] | None = None


class ServedModels:
    """Asks the server for its models, and again after a while; what the configuration states comes first."""

    def __init__(self, server: RemoteServer, connection: Connection, probes: Probes, clock: Clock) -> None:
        self._server = server
        self._connection = connection
        self._probes = probes
        self._clock = clock
        self._listed: tuple[ServedModel, ...] = ()
        self._listed_at_s: float | None = None
        self._known: dict[str, ServedModel] = {}
        self._lock = asyncio.Lock()

    async def names(self) -> list[str]:
        """Return the names of all models.

        Raises:
            ApplianceError: the server cannot be asked.
        """
        return [model.name for model in await self._offered()]

    async def find(self, name: str) -> ServedModel:
        """Return a model with its capabilities, probed where they are not stated.

        Raises:
            ModelNotFoundError: the server does not have it, or the configuration does not offer it.
            ApplianceError: the server cannot be asked.
        """
        async with self._lock:
            model = _named(name, await self._offered_now())
            if model is None:
                # It may have come since the list was asked for.
                self._listed_at_s = None
                model = _named(name, await self._offered_now()) or await self._unlisted(name)
            if model.name not in self._known:
                self._known[model.name] = await self._examined(model)
            return self._known[model.name]

    async def _offered(self) -> list[ServedModel]:
        async with self._lock:
            return await self._offered_now()

    async def _offered_now(self) -> list[ServedModel]:
        now_s = self._clock.now_s()
        if self._listed_at_s is None or now_s - self._listed_at_s > _LISTED_FOR_S:
            listed = await self._list()
            if listed != self._listed:
                self._known.clear()
            self._listed, self._listed_at_s = listed, now_s
        stated = {model.name: model for model in self._server.models}
        if not stated:
            return list(self._listed)
        return [model for model in self._listed if {model.name, *model.aliases} & stated.keys()]

    async def _unlisted(self, name: str) -> ServedModel:
        """Ask for a model by its name: some servers answer with more than they list."""
        if self._server.models and name not in {model.name for model in self._server.models}:
            raise self._unknown(name)
        try:
            entry = await self._connection.get(f"/v1/models/{quote(name)}", timeout_s=_ASIDE_S)
        except InvalidRequestError as exc:
            raise self._unknown(name) from exc
        model = _listed_model(entry)
        if model.name != name:
            raise self._unknown(name)
        return model

    async def _list(self) -> tuple[ServedModel, ...]:
        content = await self._connection.get("/v1/models", timeout_s=_ASIDE_S)
        models = [_listed_model(entry) for entry in list_at(content, "data")]
        named = [model for model in models if model.name]
        # One that is there alone may be called by the last part of its name, which often is a path.
        return tuple(replace(model, aliases=_aliases(model, named)) for model in named)

    async def _examined(self, model: ServedModel) -> ServedModel:
        stated = self._stated(model)
        examined = await self._with_window(await self._with_kind(model))
        window = stated.context_window or examined.context_window
        capabilities = stated.capabilities
        if capabilities is None:
            identity = (examined.digest, str(examined.created), examined.dialect.name)
            capabilities = CHAT | await self._probes.capabilities(model.name, identity)
        return replace(examined, context_window=window, capabilities=capabilities)

    def _stated(self, model: ServedModel) -> RemoteModel:
        names = {model.name, *model.aliases}
        return next(
            (stated for stated in self._server.models if stated.name in names), RemoteModel(name=model.name)
        )

    async def _with_kind(self, model: ServedModel) -> ServedModel:
        """Recognise a server that does not name itself in its list."""
        if model.dialect is not UNKNOWN or not text_at(await self._aside("/api/version"), "version"):
            return model
        return replace(model, dialect=OLLAMA)

    async def _with_window(self, model: ServedModel) -> ServedModel:
        """Ask beside the OpenAI API for the window a model runs with, where its list does not say."""
        if model.dialect is LLAMA_SERVER:
            props = await self._aside("/props")
            window = count_at(props, "default_generation_settings", "n_ctx") or model.context_window
            return replace(model, context_window=window)
        if model.dialect is OLLAMA:
            return await self._with_ollama_facts(model)
        if model.dialect.name == "lm_studio":
            entries = list_at(await self._aside("/api/v0/models"), "data")
            entry = next((entry for entry in entries if text_at(entry, "id") == model.name), None)
            window = count_at(entry, "loaded_context_length") or count_at(entry, "max_context_length") or 0
            return replace(model, context_window=window)
        return model

    async def _with_ollama_facts(self, model: ServedModel) -> ServedModel:
        """The window is that of the running model, so it is loaded first; its file may state another."""
        entry = await self._entry_of("/api/ps", model.name)
        if entry is None:
            with suppress(ApplianceError):
                await self._connection.post("/api/generate", {"model": model.name}, timeout_s=_LOADING_S)
            entry = await self._entry_of("/api/ps", model.name)
        tag = await self._entry_of("/api/tags", model.name)
        return replace(
            model,
            context_window=count_at(entry, "context_length") or 0,
            digest=_digest(text_at(tag, "digest")),
        )

    async def _entry_of(self, path: str, name: str) -> object:
        entries = list_at(await self._aside(path), "models")
        return next((entry for entry in entries if text_at(entry, "name") == name), None)

    async def _aside(self, path: str) -> object:
        try:
            return await self._connection.get(path, timeout_s=_ASIDE_S)
        except ApplianceError:
            return None

    def _unknown(self, name: str) -> ModelNotFoundError:
        names = [f"{self._server.name}/{model.name}" for model in self._listed[:8]]
        listed = ", ".join(names) or "none at all"
        return ModelNotFoundError(
            f"{self._connection.label} has no model {name!r}", hint=f"it offers {listed}", model=name
        )


def _named(name: str, models: list[ServedModel]) -> ServedModel | None:
    return next((model for model in models if name == model.name or name in model.aliases), None)


def _listed_model(entry: object) -> ServedModel:
    window = (
        count_at(entry, "max_model_len")
        or count_at(entry, "meta", "n_ctx")
        or count_at(entry, "context_window")
    )
    aliases = (alias for alias in list_at(entry, "aliases") if isinstance(alias, str))
    owner = text_at(entry, "owned_by")
    return ServedModel(
        name=text_at(entry, "id"),
        dialect=BY_OWNER.get(owner, UNKNOWN),
        context_window=window or 0,
        digest=_digest(text_at(entry, "digest")),
        created=count_at(entry, "created") or 0
        if BY_OWNER.get(owner) is not LLAMA_SERVER
        else _shape_of(entry),
        aliases=tuple(aliases),
    )


def _shape_of(entry: object) -> int:
    """llama-server states the time of the request as `created`; the size of its weights tells them apart."""
    return count_at(entry, "meta", "size") or 0 if isinstance(at(entry, "meta"), dict) else 0


def _aliases(model: ServedModel, models: list[ServedModel]) -> tuple[str, ...]:
    short = model.name.rstrip("/").rpartition("/")[2]
    return (*model.aliases, *((short,) if len(models) == 1 and short else ()))


def _digest(text: str) -> str:
    match = _DIGEST.fullmatch(text)
    return match[1] if match else ""
