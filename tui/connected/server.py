"""Requests to a running appliance: one token, JSON both ways, failures as errors that say what to do."""

from __future__ import annotations

import httpx

from appliance.core.addresses import ServerAddress
from appliance.core.errors import (
    ApplianceError,
    AuthenticationError,
    InvalidRequestError,
    ProviderUnavailableError,
    RateLimitedError,
)
from appliance.core.usage import Usage

TOKEN_VARIABLE = "APPLIANCE_TOKEN"  # noqa: S105  the variable's name
_CONNECT_S = 10.0
# A model that is loaded first, or a long document, may take this long to answer.
_ANSWER_S = 600.0


class ServerConnection:
    """Speaks with one server. Methods raise ApplianceError."""

    def __init__(self, address: ServerAddress, token: str) -> None:
        self.address = address
        self._client = httpx.AsyncClient(
            base_url=address.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, path: str) -> dict[str, object]:
        """Read something."""
        return await self._send("GET", path)

    async def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        """Ask for something."""
        return await self._send("POST", path, body=body)

    async def upload(self, path: str, name: str, data: bytes) -> dict[str, object]:
        """Send the bytes of a file."""
        return await self._send("POST", path, name=name, data=data)

    async def delete(self, path: str) -> dict[str, object]:
        """Remove something."""
        return await self._send("DELETE", path)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, object] | None = None,
        name: str = "",
        data: bytes | None = None,
    ) -> dict[str, object]:
        try:
            response = await self._client.request(
                method,
                path,
                json=body,
                content=data,
                params={"name": name} if name else None,
                headers={"Content-Type": "application/octet-stream"} if data is not None else None,
            )
        except httpx.HTTPError as exc:
            raise ProviderUnavailableError(
                f"{self.address.url} does not answer: {str(exc) or type(exc).__name__}",
                hint="start it with `appliance serve`, or check the address",
            ) from exc
        told = _object(response)
        if response.is_success:
            return told
        raise _error(response, told, self.address.url)


def objects(value: object) -> list[dict[str, object]]:
    """Return the objects of a list, whatever else it holds."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def texts(value: object) -> tuple[str, ...]:
    """Return a list as texts."""
    return tuple(map(str, value)) if isinstance(value, list) else ()


def whole(value: object) -> int:
    """Return a whole number, 0 where there is none."""
    return value if isinstance(value, int) else 0


def number(value: object) -> float:
    """Return a number, 0 where there is none."""
    return float(value) if isinstance(value, int | float) else 0.0


def usage_of(told: object) -> Usage:
    """Return the tokens a server reports."""
    values = told if isinstance(told, dict) else {}
    return Usage(
        input_tokens=whole(values.get("input_tokens")),
        cached_tokens=whole(values.get("cached_tokens")),
        output_tokens=whole(values.get("output_tokens")),
    )


def _object(response: httpx.Response) -> dict[str, object]:
    try:
        told = response.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _error(response: httpx.Response, told: dict[str, object], url: str) -> ApplianceError:
    status = response.status_code
    error = told.get("error")
    message = str(error.get("message", "")) if isinstance(error, dict) else ""
    said = message or f"{url} answered with status {status}"
    match status:
        case 401 | 403:
            return AuthenticationError(
                said, hint=f"set {TOKEN_VARIABLE} to what `appliance token` shows there"
            )
        case 429:
            after = response.headers.get("retry-after", "")
            return RateLimitedError(said, retry_after_s=float(after) if after.isdigit() else 1.0)
        case _ if status < 500:
            return InvalidRequestError(said)
        case _:
            return ProviderUnavailableError(said)
