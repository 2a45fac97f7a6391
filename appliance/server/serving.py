"""Runs the application: listen, serve, and on SIGTERM drain within a bounded time and exit with 0."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from appliance.core.errors import StorageError
from appliance.server.following import ForgetFollower
from appliance.server.http import build_http
from appliance.server.options import ServeOptions
from appliance.server.running import Running
from appliance.server.services import Services
from appliance.server.sweeping import sweep_for_ever

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MAX_HEADER_BYTES = 64 * 1024
_LAST_WORDS_S = 1.5


async def serve(services: Services, on_listening: Callable[[str], None]) -> None:
    """Serve until a signal; `on_listening` is told the URL once connections are taken.

    Raises:
        StorageError: the address cannot be used.
    """
    server = draining_server(services, on_listening)
    appliance = services.appliance
    follower = ForgetFollower(services.audit, appliance.forget_owner)
    tending = [
        asyncio.ensure_future(sweep_for_ever(services)),
        asyncio.ensure_future(follower.follow_for_ever(appliance.clock)),
    ]
    try:
        await server.serve()
    except SystemExit as exc:
        options = services.options
        raise StorageError(
            f"{options.host} port {options.port} cannot be used",
            hint="is another server running there? choose another with --port",
        ) from exc
    finally:
        for task in tending:
            task.cancel()
        await asyncio.wait(tending)


def draining_server(services: Services, on_listening: Callable[[str], None]) -> DrainingServer:
    """Return a server that is not started yet."""
    return DrainingServer(build_http(services), services.options, services.running, on_listening)


class DrainingServer(uvicorn.Server):
    """A uvicorn that tells when it listens, lets running answers end, and then ends them with an error each."""

    def __init__(
        self, app: ASGIApp, options: ServeOptions, running: Running, on_listening: Callable[[str], None]
    ) -> None:
        super().__init__(_config(app, options))
        self._options = options
        self._running = running
        self._on_listening = on_listening

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Begin to listen."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            self._on_listening(self._url())

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Take no new work, wait for what runs, end what takes too long."""
        self._running.drain()
        ending = asyncio.get_running_loop().call_later(self._options.drain_s, self._running.stop)
        try:
            await super().shutdown(sockets)  # type: ignore[arg-type]
        finally:
            ending.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the first signal as a wish to end and the second one as an order; exit normally after either."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Note a signal."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def _url(self) -> str:
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        scheme = "https" if self._options.has_tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _config(app: ASGIApp, options: ServeOptions) -> uvicorn.Config:
    class Protocol(PatientProtocol):
        header_s = options.header_s

    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=options.max_connections,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        timeout_graceful_shutdown=int(options.drain_s + _LAST_WORDS_S),
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
    )


class PatientProtocol(H11Protocol):
    """HTTP/1.1 whose patience with a client ends: the headers of a request must come whole in `header_s`."""

    header_s = 10.0
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give a new connection time to say something."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self.header_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Go on waiting while headers are incomplete; the time runs from their first byte."""
        if self._waiting is None and self._is_between_requests():
            self._waiting = self.loop.call_later(self.header_s, self._give_up)
        super().data_received(data)
        if not self._is_between_requests():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_between_requests() and not self.transport.is_closing():
            self.transport.close()
