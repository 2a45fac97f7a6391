"""The models of configured servers, for `appliance list`: asked for at once, within a few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass

from appliance.config import Settings
from appliance.core.capabilities import Placement
from appliance.core.clock import SystemClock
from appliance.core.errors import ApplianceError

_LISTING_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRows:
    """What one server offers, or why that is not known."""

    provider: str
    host: str
    placement: Placement
    models: tuple[str, ...] = ()
    problem: str = ""

    def to_values(self) -> list[dict[str, object]]:
        """Return one object a model for JSON."""
        shared = {"provider": self.provider, "host": self.host, "placement": self.placement}
        return [{"id": model, "is_on_disk": False, **shared} for model in self.models]


def remote_rows(settings: Settings) -> list[RemoteRows]:
    """Ask every server of the configuration for its models."""
    if not settings.providers:
        return []
    return asyncio.run(_all_rows(settings))


def remote_text(rows: list[RemoteRows]) -> str:
    """Return the servers and their models as lines."""
    lines: list[str] = []
    for row in rows:
        leaves = "" if row.placement == "this_machine" else "; what is asked leaves this machine"
        lines.append(f"{row.provider} at {row.host} ({row.placement.replace('_', ' ')}{leaves})")
        lines += [f"  {model}" for model in row.models]
        lines += [f"  {row.problem}"] if row.problem else []
    return "\n".join(lines)


async def _all_rows(settings: Settings) -> list[RemoteRows]:
    from appliance.app import open_remote_providers

    providers = open_remote_providers(settings, SystemClock())
    try:
        listed = await asyncio.gather(*(_names(provider.model_names()) for provider in providers))
    finally:
        for provider in providers:
            await provider.close()
    addresses = [server.address for server in settings.providers.values()]
    return [
        RemoteRows(
            provider=provider.name,
            host=address.host,
            placement=address.placement,
            models=models,
            problem=problem,
        )
        for provider, address, (models, problem) in zip(providers, addresses, listed, strict=True)
    ]


async def _names(asking: Coroutine[object, object, list[str]]) -> tuple[tuple[str, ...], str]:
    try:
        async with asyncio.timeout(_LISTING_S):
            return tuple(await asking), ""
    except ApplianceError as exc:
        return (), f"{exc.message}; {exc.hint}" if exc.hint else exc.message
    except TimeoutError:
        return (), f"no answer within {_LISTING_S:g} s"
