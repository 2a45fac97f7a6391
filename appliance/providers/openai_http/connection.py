"""HTTP to one server: no redirects, no proxy of the environment, TLS checked, everything bounded."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from appliance.config.remote import RemoteServer
from appliance.core.errors import (
    ApplianceError,
    AuthenticationError,
    ConfigError,
    DeadlineError,
    ProviderUnavailableError,
)
from appliance.providers.openai_http.failures import error_of_response
from appliance.providers.openai_http.foreign_json import JsonObject, parsed

if TYPE_CHECKING:
    import httpx

_LARGEST_BODY_BYTES = 16 << 20
_CERTIFICATE_HINT = "state ca_file if the certificate is your own authority's"


class Connection:
    """Sends requests to one server. The client is made at the first one; a key is read then."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server
        self._root = server.address.url.removesuffix("/v1")
        self._client: httpx.AsyncClient | None = None

    @property
    def label(self) -> str:
        """The server in messages."""
        return f"{self._server.name} ({self._server.address.host})"

    @property
    def url(self) -> str:
        """The server's address."""
        return self._server.address.url

    async def get(self, path: str, *, timeout_s: float | None = None) -> object:
        """Return the JSON of a resource.

        Raises:
            ApplianceError: it cannot be had.
        """
        return await self._exchange("GET", path, None, timeout_s)

    async def post(self, path: str, body: JsonObject, *, timeout_s: float | None = None) -> object:
        """Send JSON and return JSON.

        Raises:
            ApplianceError: the server refused or cannot be reached.
        """
        return await self._exchange("POST", path, body, timeout_s)

    @asynccontextmanager
    async def stream(self, path: str, body: JsonObject) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send JSON and give the bytes of the answer as they come.

        Raises:
            ApplianceError: the server refused, cannot be reached, or broke off.
        """
        import httpx

        client = self._opened()
        request = client.build_request("POST", self._root + path, json=body)
        try:
            response = await client.send(request, stream=True)
        except httpx.HTTPError as exc:
            raise self._translated(exc) from exc
        try:
            await self._check(response, str(body.get("model", "")))
            yield self._bytes_of(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()

    async def _exchange(
        self, method: str, path: str, body: JsonObject | None, timeout_s: float | None
    ) -> object:
        import httpx

        client = self._opened()
        timeout = httpx.Timeout(timeout_s or self._server.stall_s, connect=min(
            self._server.connect_s, timeout_s or self._server.connect_s))  # fmt: skip
        request = client.build_request(method, self._root + path, json=body, timeout=timeout)
        try:
            response = await client.send(request, stream=True)
        except httpx.HTTPError as exc:
            raise self._translated(exc) from exc
        try:
            await self._check(response, str((body or {}).get("model", "")))
            content = parsed(await self._read(response))
        finally:
            await response.aclose()
        if content is None:
            raise ProviderUnavailableError(f"{self.label} answered {path} with what is no JSON")
        return content

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = self._open()
        return self._client

    def _open(self) -> httpx.AsyncClient:
        import httpx

        server = self._server
        return httpx.AsyncClient(
            headers={**dict(server.extra_headers), **self._key_header()},
            timeout=httpx.Timeout(server.stall_s, connect=server.connect_s),
            follow_redirects=False,
            trust_env=False,
            proxy=server.proxy or None,
            verify=self._tls(),
        )

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._server.ca_file or None)
        except (OSError, ssl.SSLError) as exc:
            raise ConfigError(
                f"providers.{self._server.name}: ca_file {self._server.ca_file} cannot be used: {exc}"
            ) from exc

    def _key_header(self) -> dict[str, str]:
        variable = self._server.api_key_env
        if not variable:
            return {}
        key = os.environ.get(variable, "").strip()
        if not key:
            raise AuthenticationError(
                f"the key of {self.label} is not set", hint=f"set the environment variable {variable}"
            )
        if not key.isascii() or not key.isprintable():
            raise AuthenticationError(f"the key in {variable} has characters that no key has")
        return {"Authorization": f"Bearer {key}"}

    async def _check(self, response: httpx.Response, model: str) -> None:
        if response.status_code == 200:
            return
        raise error_of_response(
            self.label,
            response.status_code,
            response.headers,
            await self._read(response),
            model=model,
            key_variable=self._server.api_key_env,
        )

    async def _read(self, response: httpx.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in self._bytes_of(response):
            size += len(piece)
            if size > _LARGEST_BODY_BYTES:
                raise ProviderUnavailableError(
                    f"{self.label} answered with more than {_LARGEST_BODY_BYTES} bytes"
                )
            pieces.append(piece)
        return b"".join(pieces)

    async def _bytes_of(self, response: httpx.Response) -> AsyncIterator[bytes]:
        import httpx

        try:
            async for piece in response.aiter_bytes():
                yield piece
        except (httpx.HTTPError, httpx.StreamError) as exc:
            raise self._translated(exc) from exc

    def _translated(self, exc: Exception) -> ApplianceError:
        import httpx

        server = self._server
        match exc:
            case httpx.ConnectTimeout():
                return ProviderUnavailableError(
                    f"{self.label} did not accept a connection within {server.connect_s:g} s",
                    hint="check the address, and that the server runs",
                )
            case httpx.TimeoutException():
                return DeadlineError(phase="stall", limit_s=server.stall_s)
            case httpx.ConnectError() if _is_about_certificates(exc):
                return ProviderUnavailableError(
                    f"the certificate of {self.label} is not trusted: {exc}", hint=_CERTIFICATE_HINT
                )
            case httpx.ConnectError():
                return ProviderUnavailableError(
                    f"nothing answers at {server.address.url}: {exc}",
                    hint=f"start the server, or correct providers.{server.name}.url",
                )
            case _:
                return ProviderUnavailableError(
                    f"the connection to {self.label} broke: {str(exc) or type(exc).__name__}",
                    hint="see what the server logs",
                )


def _is_about_certificates(exc: BaseException) -> bool:
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
