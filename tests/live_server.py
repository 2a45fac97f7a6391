"""A server of the appliance on a free port, in a thread of this process, with scripted models beside real ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from appliance.app import build_appliance
from appliance.config import Scalar, load_settings
from appliance.retrieval.rerank import ClosableReranker
from appliance.server.options import ServeOptions
from appliance.server.scorers import LateModels
from appliance.server.services import Services
from appliance.server.serving import DrainingServer, draining_server
from appliance.server.starting import opened_services
from appliance.server.teams.tokens import Scope
from appliance.server.teams.users import Role
from tests.conftest import MODELS_DIR

SCRIPT = """
[[model]]
name = "scripted:greet"
[[model.turn]]
steps = [{think = "Be kind."}, {say = "Good morning to you."}]

[[model]]
name = "scripted:slow"
[[model.turn]]
steps = [{say = "one two three four five six seven eight nine ten", token_s = 0.2}]

[[model]]
name = "scripted:endless"
[[model.turn]]
steps = [{say = "begun "}, {wait = 600}]

[[model]]
name = "scripted:call"
[[model.turn]]
steps = [{call = "weather", arguments = '{"city": "Paris"}'}, {call = "weather", arguments = '{"city": "Rome"}'}]
[[model.turn]]
steps = [{say = "It rains."}]

[[model]]
name = "scripted:json"
[[model.turn]]
steps = [{say = '{"name": "Emma", "year": 1815}'}]

[[model]]
name = "scripted:ticket"
[[model.turn]]
steps = [{say = '{"category": "billing", "urgency": "high", "summary": "Charged twice", "needs_human": true}'}]

[[model]]
name = "scripted:broken"
[[model.turn]]
steps = [{say = "half an "}, {fail = "engine_crashed", message = "the worker died"}]

[[model]]
name = "scripted:tiny"
context_window = 16
[[model.turn]]
steps = [{echo = true}]
"""


@dataclass(frozen=True, kw_only=True)
class LiveServer:
    """A running server: its address, what its routes work with, and tokens for it."""

    url: str
    services: Services
    token: str

    def token_of(self, name: str, *, role: Role = "member", scopes: tuple[Scope, ...] = ()) -> str:
        """Add a user and return a token of theirs."""
        user = self.services.users.add(name, role, actor="test")
        return self.services.tokens.create(user, actor="test", scopes=scopes).text

    def client(self, token: str | None = None) -> httpx.Client:
        """Return a client with a token; with an empty one it has none."""
        used = self.token if token is None else token
        headers = {"authorization": f"Bearer {used}"} if used else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, trust_env=False)


@contextmanager
def live_server(
    folder: Path,
    options: ServeOptions | None = None,
    *,
    config: str = "",
    rerankers: LateModels[ClosableReranker] | None = None,
    **flags: Scalar,
) -> Iterator[LiveServer]:
    """Serve from the folder until the block ends. `config` is the text of the configuration file."""
    config_file = folder / "config.toml"
    config_file.write_text(config, encoding="utf-8")
    script = folder / "script.toml"
    script.write_text(SCRIPT, encoding="utf-8")
    settings = load_settings(
        {
            "data_dir": folder / "data",
            "state_dir": folder / "state",
            "cache_dir": folder / "cache",
            "runtime_dir": folder / "run",
            "models_dir": MODELS_DIR,
            "script": str(script),
            "model": "scripted:greet",
            **flags,
        },
        config_file=config_file,
    )
    started: list[LiveServer | BaseException] = []
    servers: list[DrainingServer] = []
    ready = threading.Event()

    async def serve() -> None:
        async with build_appliance(settings) as appliance:
            with opened_services(appliance, options or ServeOptions(port=0)) as opened:
                services = replace(opened, rerankers=rerankers or opened.rerankers)

                def on_listening(url: str) -> None:
                    token = services.tokens.machine_token(settings.state_dir)
                    started.append(LiveServer(url=url, services=services, token=token))
                    ready.set()

                server = draining_server(services, on_listening)
                servers.append(server)
                await server.serve()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:  # noqa: BLE001  the test that waits for the server gets it
            started.append(exc)
            ready.set()

    thread = threading.Thread(target=run, name="live-server")
    thread.start()
    assert ready.wait(30)
    if not isinstance(started[0], LiveServer):
        raise started[0]
    try:
        yield started[0]
    finally:
        servers[0].should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not stop"
