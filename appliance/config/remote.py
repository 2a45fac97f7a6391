"""Servers that run models elsewhere, as the table `providers` of the configuration file names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from appliance.config.tables import Table
from appliance.core.addresses import ServerAddress, server_address, through_proxy
from appliance.core.capabilities import Capability, Placement
from appliance.core.errors import ConfigError

RESERVED_NAMES = frozenset(("llama_cpp", "scripted"))
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteModel:
    """A model of a server. What is stated here is not probed; 0 and `None` mean not stated."""

    name: str
    context_window: int = 0
    capabilities: frozenset[Capability] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """A server with an OpenAI-compatible API. Its models are called `<name>/<model>`.

    `is_allowed` is the permission to send prompts to it when it is not this machine. With `models`, no
    others are offered. `api_key_env` names the environment variable that holds the key.
    """

    name: str
    address: ServerAddress
    is_allowed: bool = False
    api_key_env: str = ""
    models: tuple[RemoteModel, ...] = ()
    connect_s: float = 10.0
    stall_s: float = 300.0
    proxy: str = ""
    ca_file: str = ""
    extra_headers: tuple[tuple[str, str], ...] = field(default=())


def parse_remote_servers(table: Table) -> dict[str, RemoteServer]:
    """Read the table `providers`.

    Raises:
        ConfigError: a server has no usable address or name, or a key or value that means nothing.
    """
    return {server.name: _server(server) for server in table.tables()}


def _server(table: Table) -> RemoteServer:
    if not _NAME.fullmatch(table.name) or table.name in RESERVED_NAMES:
        raise ConfigError(
            f"{table.name!r} cannot be the name of a provider",
            hint="use small letters, digits, '.', '_' and '-'; llama_cpp and scripted are taken",
        )
    headers = table.table("headers")
    server = RemoteServer(
        name=table.name,
        address=_address(table),
        is_allowed=table.boolean("allow", False),
        api_key_env=_variable(table),
        models=tuple(_model(table, number, item) for number, item in enumerate(table.items("models"))),
        connect_s=table.number("connect_s", 10.0, 0.1, 600.0),
        stall_s=table.number("stall_s", 300.0, 1.0, 86_400.0),
        proxy=table.text("proxy", ""),
        ca_file=table.text("ca_file", ""),
        extra_headers=tuple((name, _header(headers, name)) for name in headers.keys()),  # noqa: SIM118
    )
    _check_distinct(table, [model.name for model in server.models])
    table.finish()
    return server


def _address(table: Table) -> ServerAddress:
    stated = table.choice("place", get_args(Placement))
    proxy = table.text("proxy", "")
    try:
        address = server_address(table.text("url"), stated=stated)
        return through_proxy(address, proxy) if proxy else address
    except ConfigError as exc:
        raise ConfigError(f"providers.{table.name}: {exc.message}", hint=exc.hint) from exc


def _variable(table: Table) -> str:
    name = table.text("api_key_env", "")
    if name and not _VARIABLE.fullmatch(name):
        # The value itself may be a key that was put into the wrong place.
        raise ConfigError(
            f"providers.{table.name}: api_key_env is no name of an environment variable",
            hint="state the variable's name, not the key",
        )
    return name


def _header(headers: Table, name: str) -> str:
    value = headers.text(name)
    if name.lower() in ("authorization", "host", "content-length") or "\n" in name + value:
        raise headers.wrong(name, "a header of your own is expected; for a key there is api_key_env")
    return value


def _model(server: Table, number: int, item: object) -> RemoteModel:
    if isinstance(item, str) and item.strip():
        return RemoteModel(name=item.strip())
    if not isinstance(item, dict):
        raise server.wrong("models", "each is the name of a model, or a table with the key name")
    table = server.inner(f"models[{number}]", item)
    stated = table.choices("capabilities", (), get_args(Capability)) if "capabilities" in table else None
    model = RemoteModel(
        name=table.text("name"),
        context_window=table.integer("context_window", 0, 0, 1 << 24),
        capabilities=None if stated is None else stated | {"chat"},
    )
    table.choices("capabilities", (), get_args(Capability))
    table.finish()
    return model


def _check_distinct(table: Table, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise table.wrong("models", "each model may stand once")
