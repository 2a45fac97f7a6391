"""The door: Host, Origin, token, kind and size of the body, slow senders. What it lets in, routes can trust."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appliance.core.errors import ApplianceError, AuthenticationError
from appliance.server.options import ServeOptions
from appliance.server.problems import Problem, RefusedError, problem_of
from appliance.server.strict_json import check_json
from appliance.server.teams.tokens import Caller

OPEN_PATHS = frozenset(("/health", "/ready"))
"""The paths that need no token; they say nothing but whether the server works."""

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"))
_WITH_BODY = frozenset(("POST", "PUT"))
_BINARY = "application/octet-stream"
_JSON = "application/json"
_CORS_HEADERS = "authorization, content-type, x-request-id"


class CheckToken(Protocol):
    """Says who a token stands for."""

    def __call__(self, text: str) -> Caller:
        """Return the caller.

        Raises:
            AuthenticationError: the token is not good.
        """
        ...


class Guard:
    """Wraps the application. `takes_binary` says which paths take the bytes of a file as they are."""

    def __init__(
        self,
        app: ASGIApp,
        options: ServeOptions,
        check_token: CheckToken,
        *,
        takes_binary: Callable[[str], bool],
        on_denied: Callable[[str], None],
    ) -> None:
        self._app = app
        self._options = options
        self._check_token = check_token
        self._takes_binary = takes_binary
        self._on_denied = on_denied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by itself what may not pass."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = _Request(scope)
        origin = request.header("origin")
        try:
            self._check_place(request, origin)
            if scope["method"] == "OPTIONS":
                await _answer(send, 204, b"", _cors(origin))
                return
            await self._authenticate(request, scope)
            guarded = await self._body(request, receive)
        except ApplianceError as exc:
            await _refuse(send, problem_of(exc), _cors(origin) if self._is_known(origin) else [])
            return
        await self._app(scope, guarded, _with_headers(send, _cors(origin)))

    def _check_place(self, request: _Request, origin: str) -> None:
        hosts = request.headers("host")
        if len(hosts) != 1 or not self._options.knows_host(hosts[0], request.local_address):
            raise RefusedError(
                f"the host {(hosts[0] if hosts else '')[:200]!r} is not served here",
                status=403,
                code="host_not_allowed",
                hint="start the server with --allow-host for each name it is reached by",
            )
        if origin and not self._is_known(origin):
            raise RefusedError(
                f"the web page {origin[:200]!r} may not call this server",
                status=403,
                code="origin_not_allowed",
                hint="start the server with --allow-origin for each page that may",
            )
        if request.method not in _METHODS:
            raise RefusedError("this method is not served", status=405, code="method_not_allowed")

    def _is_known(self, origin: str) -> bool:
        return bool(origin) and origin in self._options.allowed_origins

    async def _authenticate(self, request: _Request, scope: Scope) -> None:
        if request.path in OPEN_PATHS:
            return
        scheme, _, token = request.header("authorization").partition(" ")
        try:
            if scheme.lower() != "bearer" or not token:
                raise AuthenticationError(
                    "a token is needed",
                    hint="send `Authorization: Bearer TOKEN`; `appliance token` shows the one of this machine",
                )
            caller = await asyncio.to_thread(self._check_token, token.strip())
        except AuthenticationError as exc:
            await asyncio.to_thread(self._on_denied, exc.message)
            raise
        scope.setdefault("state", {})["caller"] = caller

    async def _body(self, request: _Request, receive: Receive) -> Receive:
        if request.method not in _WITH_BODY:
            return receive
        media_type = request.header("content-type").partition(";")[0].strip().lower()
        is_binary = self._takes_binary(request.path)
        wanted = _BINARY if is_binary else _JSON
        if media_type != wanted:
            raise RefusedError(
                f"the body is {media_type or 'of no stated type'}; {wanted} is expected",
                status=415,
                code="unsupported_media_type",
                hint=f"send `Content-Type: {wanted}`",
            )
        limit_bytes = self._options.max_upload_bytes if is_binary else self._options.max_body_bytes
        _check_length(request, limit_bytes)
        if is_binary:
            return _Measured(receive, limit_bytes, self._options.upload_s)
        measured = _Measured(receive, limit_bytes, self._options.body_s)
        body = await measured.whole()
        # A large body takes a while to read; others' tokens must not wait for it.
        await asyncio.to_thread(check_json, body) if len(body) > 1 << 16 else check_json(body)
        return _Replay(body, receive)


class _Request:
    """The parts of an ASGI scope the guard looks at."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        server = scope.get("server")
        self.local_address: str = server[0] if server else ""

    def headers(self, name: str) -> list[str]:
        wanted = name.encode()
        return [value.decode("latin-1") for key, value in self._headers if key == wanted]

    def header(self, name: str) -> str:
        values = self.headers(name)
        return values[0] if values else ""


class _Measured:
    """Receives a body that may not be larger than a limit nor take longer than another."""

    def __init__(self, receive: Receive, limit_bytes: int, limit_s: float) -> None:
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._limit_s = limit_s
        self._until_s = time.monotonic() + limit_s
        self._seen_bytes = 0
        self._is_whole = False

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._until_s - time.monotonic())):
                message = await self._receive()
        except TimeoutError as exc:
            raise RefusedError(
                f"the body was not here after {self._limit_s:g} s", status=408, code="request_timeout"
            ) from exc
        self._seen_bytes += len(message.get("body", b""))
        if self._seen_bytes > self._limit_bytes:
            raise _too_large(self._limit_bytes)
        self._is_whole = not message.get("more_body", False)
        return message

    async def whole(self) -> bytes:
        parts: list[bytes] = []
        while not self._is_whole:
            message = await self()
            if message["type"] == "http.disconnect":
                raise RefusedError("the client has gone", status=408, code="request_timeout")
            parts.append(message.get("body", b""))
        return b"".join(parts)


class _Replay:
    """Gives a body that was read already, then what comes after it."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _check_length(request: _Request, limit_bytes: int) -> None:
    stated = request.header("content-length")
    # Python refuses to read a number of thousands of digits.
    if stated.isdigit() and (len(stated) > 18 or int(stated) > limit_bytes):
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> RefusedError:
    return RefusedError(f"the body is larger than {limit_bytes} bytes", status=413, code="request_too_large")


def _cors(origin: str) -> list[tuple[bytes, bytes]]:
    if not origin:
        return []
    values = {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, POST, PUT, DELETE",
        "access-control-allow-headers": _CORS_HEADERS,
        "access-control-max-age": "600",
        "vary": "origin",
    }
    return [(name.encode(), value.encode("latin-1")) for name, value in values.items()]


def _with_headers(send: Send, more: list[tuple[bytes, bytes]]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            safe = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
            message = {**message, "headers": [*message.get("headers", []), *safe, *more]}
        await send(message)

    return sending


async def _refuse(send: Send, problem: Problem, more: list[tuple[bytes, bytes]]) -> None:
    """Answer and close: what is left of the body is not read."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in problem.headers().items()]
    headers += [(b"content-type", b"application/json"), (b"connection", b"close"), *more]
    await _answer(send, problem.status, json.dumps(problem.body()).encode(), headers)


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})
