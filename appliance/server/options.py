"""How the server listens, and what is refused before it does."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import ConfigError

DEFAULT_PORT = 8427
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  addresses to listen on; as a name of a server they are a trick


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Where to listen and whom to believe.

    `allowed_hosts` are further names in the header Host, `allowed_origins` are web pages that may call.
    `drain_s` is what running answers get after SIGTERM; the slow-client limits bound one request's headers,
    its whole body, and one write of the answer.

    Raises:
        ConfigError: an address beyond this machine without TLS, or half of a TLS pair.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    may_lack_tls: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: int = 8 * 2**20
    max_upload_bytes: int = 256 * 2**20
    max_connections: int = 1_024
    header_s: float = 10.0
    body_s: float = 30.0
    upload_s: float = 600.0
    write_s: float = 60.0
    drain_s: float = 8.0

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("TLS needs both files", hint="give --tls-cert and --tls-key")
        for path in (self.tls_certificate, self.tls_key):
            if path is not None and not path.is_file():
                raise ConfigError(f"there is no file {path}")
        for origin in self.allowed_origins:
            if "://" not in origin or origin.endswith("/") or "*" in origin:
                raise ConfigError(
                    f"{origin!r} is no origin",
                    hint="write it as a browser does, such as https://chat.example.org",
                )
        if not self.is_loopback and self.tls_certificate is None and not self.may_lack_tls:
            raise ConfigError(
                f"{self.host} can be reached from other machines, and without TLS everybody on the way can read "
                "questions, answers and tokens",
                hint="give --tls-cert and --tls-key, or say --insecure-no-tls behind a proxy that has TLS",
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host == "localhost" or _is_loopback(self.host)

    @property
    def has_tls(self) -> bool:
        """Whether the server itself speaks TLS."""
        return self.tls_certificate is not None

    def knows_host(self, host: str, local_address: str) -> bool:
        """Whether a request may name this host.

        A page that rebinds its own name to this machine names itself in Host. An IP address cannot be
        rebound, so the one that the connection came in on is always right.
        """
        name = _without_port(host).lower()
        if not name or name in _EVERYWHERE:
            return False
        if name in _LOOPBACK_NAMES and _is_loopback(local_address):
            return True
        known = {self.host.lower(), local_address.lower(), *(each.lower() for each in self.allowed_hosts)}
        return name in known


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and ":" not in name else host
