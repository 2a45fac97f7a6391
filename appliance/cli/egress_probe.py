"""Runs inside a network namespace: serves a model on loopback, asks it over HTTP, and reports attempts to leave.

The last line of the output is a JSON object: the model that answered, the interfaces there are, and every
address beyond loopback that this process tried to reach.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import json
import os
import socket
import struct
import sys
import tempfile
import urllib.request
from pathlib import Path

from appliance.app import build_appliance
from appliance.config import Settings, load_settings
from appliance.core.errors import ApplianceError
from appliance.server.options import ServeOptions
from appliance.server.serving import draining_server
from appliance.server.starting import opened_services

_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_FALLBACK = "scripted:echo"


def main() -> int:
    """Probe, and print what was found."""
    attempts: set[str] = set()
    sys.addaudithook(lambda event, arguments: _note(event, arguments, attempts))
    raise_loopback()
    with tempfile.TemporaryDirectory(prefix="appliance-egress-") as folder:
        model = asyncio.run(_answer(_settings(Path(folder))))
    interfaces = [name for _, name in socket.if_nameindex()]
    sys.stdout.write(
        json.dumps({"model": model, "interfaces": interfaces, "attempts": sorted(attempts)}) + "\n"
    )
    return 0 if not attempts else 1


def _settings(folder: Path) -> Settings:
    wanted = load_settings()
    return load_settings(
        {
            "models_dir": wanted.models_dir,
            "model": wanted.model,
            "data_dir": folder / "data",
            "state_dir": folder / "state",
            "cache_dir": folder / "cache",
            "runtime_dir": folder / "run",
            "max_tokens": 8,
        },
        environ={"HOME": str(folder), "PATH": os.environ.get("PATH", "")},
    )


async def _answer(settings: Settings) -> str:
    """Serve, ask, and return the name of the model that answered."""
    async with build_appliance(settings) as appliance:
        try:
            await appliance.gateway.capabilities(settings.model)
            model = settings.model
        except ApplianceError:
            model = _FALLBACK
        with opened_services(appliance, ServeOptions(port=0)) as services:
            token = services.tokens.machine_token(settings.state_dir)
            asked: list[asyncio.Task[str]] = []

            def on_listening(url: str) -> None:
                asked.append(asyncio.create_task(asyncio.to_thread(_ask, url, token, model)))
                asked[0].add_done_callback(lambda _: setattr(server, "should_exit", True))

            server = draining_server(services, on_listening)
            await server.serve()
            return await asked[0]


def _ask(url: str, token: str, model: str) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": "Say hello."}]}
    request = urllib.request.Request(  # noqa: S310  an address of our own
        f"{url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=90) as answer:
        return str(json.loads(answer.read())["model"])


def _note(event: str, arguments: tuple[object, ...], attempts: set[str]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
    elif event == "socket.getaddrinfo":
        host = str(arguments[0])
    else:
        return
    if host not in ("localhost", "None", "") and not _is_loopback(host):
        attempts.add(host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def raise_loopback() -> None:
    """A new namespace has its loopback interface down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


if __name__ == "__main__":
    sys.exit(main())
