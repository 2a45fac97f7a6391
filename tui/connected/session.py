"""Connects the interface to a running appliance: its models answer and its documents are asked; chats stay here."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import get_args
from urllib.parse import quote

from appliance.config import Settings
from appliance.config.remote import RemoteModel, RemoteServer
from appliance.core.addresses import check_may_send, server_address
from appliance.core.capabilities import Capability
from appliance.core.errors import AuthenticationError, ModelNotFoundError
from tui.connected.extraction import ExtractionOfServer
from tui.connected.library import LibraryOfServer
from tui.connected.server import TOKEN_VARIABLE, ServerConnection, objects, texts, whole
from tui.in_process.session import InProcessSession

_NAME = "server"


async def connected_session(settings: Settings, url: str) -> InProcessSession:
    """Return a session whose models and documents are those of a server; it is not open yet.

    Raises:
        ConfigError: the URL cannot be used.
        AuthenticationError: there is no token, or the server does not take it.
        ProviderUnavailableError: the server does not answer.
        PolicyRejectionError: every connection is forbidden and it is another machine.
    """
    address = server_address(url)
    # Naming the server on the command line is the permission to send to it.
    check_may_send(
        address, purpose="--connect", permission="--connect", is_allowed=True, is_offline=settings.offline
    )
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise AuthenticationError(
            "there is no token for the server",
            hint=f"set {TOKEN_VARIABLE} to what `appliance token` shows there",
        )
    server = ServerConnection(address, token)
    try:
        models = await _models_of(server, settings)
    except BaseException:
        await server.close()
        raise
    remote = RemoteServer(
        name=_NAME,
        address=replace(address, url=f"{address.url}/v1"),
        is_allowed=True,
        api_key_env=TOKEN_VARIABLE,
        models=models,
    )
    connected = replace(
        settings, model=f"{_NAME}/{models[0].name}", providers={**settings.providers, _NAME: remote}
    )
    return InProcessSession(
        connected,
        library=lambda answering: LibraryOfServer(server, answering),
        extraction=lambda answering: ExtractionOfServer(server, answering),
        on_close=server.close,
        server=address.url,
    )


async def _models_of(server: ServerConnection, settings: Settings) -> tuple[RemoteModel, ...]:
    """Return the models of the server that can chat; first the one that was asked for, else its usual one."""
    told = await server.get("/v1/models")
    models = [_model(one) for one in objects(told.get("data"))]
    if settings.source_of("model") != "default":
        wanted = _model(await server.get(f"/v1/models/{quote(settings.model)}"))
        models = [wanted, *(one for one in models if one.name != wanted.name)]
    chatting = [one for one in models if one.capabilities is None or "chat" in one.capabilities]
    if not chatting:
        raise ModelNotFoundError(
            f"{server.address.url} has no model that can chat", hint="`appliance pull` there fetches one"
        )
    return tuple(chatting)


def _model(told: dict[str, object]) -> RemoteModel:
    """Take what the server says of a model; what it does not say is probed."""
    stated = frozenset(word for word in get_args(Capability) if word in texts(told.get("capabilities")))
    return RemoteModel(
        name=str(told.get("id", "")),
        context_window=whole(told.get("context_window")),
        capabilities=stated or None,
    )
