"""The address of a server: checked once, and how far away what is sent there goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from appliance.core.capabilities import Placement
from appliance.core.errors import ConfigError, PolicyRejectionError

_PRIVATE = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10")
)
_NEAREST_FIRST: tuple[Placement, ...] = ("this_process", "this_machine", "this_network", "elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """A base URL without a slash at its end, its host, and the place that data sent there reaches."""

    url: str
    host: str
    placement: Placement

    @property
    def is_here(self) -> bool:
        """Whether nothing that is sent there leaves this machine."""
        return self.placement == "this_machine"


def server_address(text: str, *, stated: Placement | None = None) -> ServerAddress:
    """Check a URL and derive where it leads.

    A name other than `localhost` may lead anywhere, whatever it resolves to today: its place is
    `elsewhere` unless the operator states that it is a host of this network.

    Raises:
        ConfigError: it is no usable URL, or the stated place is nearer than its address can be.
    """
    parts = _checked_parts(text.strip())
    host = (parts.hostname or "").rstrip(".").lower()
    placement = _placement(text, host, stated)
    if (
        parts.scheme == "http"
        and placement == "elsewhere"
        and _possible_places(text, host)[0] != "this_machine"
    ):
        raise ConfigError(
            f"{text!r} would carry what is sent beyond this network unencrypted",
            hint='use https://, or state place = "this_network" if the host stands there',
        )
    netloc = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    return ServerAddress(
        url=f"{parts.scheme}://{netloc}{port}{parts.path.rstrip('/')}", host=host, placement=placement
    )


def through_proxy(address: ServerAddress, proxy: str) -> ServerAddress:
    """Return the address with the farthest place that data reaches on its way through a proxy.

    Raises:
        ConfigError: the proxy is no URL, or data for this machine would leave it.
    """
    try:
        host = (urlsplit(proxy).hostname or "").rstrip(".").lower()
    except ValueError:
        host = ""
    if not host:
        raise ConfigError("the proxy is no URL", hint="such as http://127.0.0.1:3128")
    _, place = _possible_places(f"the proxy {host}", host)
    if address.is_here and place != "this_machine":
        raise ConfigError(
            f"what is sent to {address.host} would leave this machine through the proxy {host}",
            hint="leave the proxy out: a server of this machine is reached without one",
        )
    farthest = max(address.placement, place, key=_NEAREST_FIRST.index)
    return replace(address, placement=farthest)


def check_may_send(
    address: ServerAddress, *, purpose: str, permission: str, is_allowed: bool, is_offline: bool
) -> None:
    """Refuse to send anything off this machine unless that was allowed for this host.

    `permission` is the setting that allows it.

    Raises:
        PolicyRejectionError: it is not allowed, or every connection to another machine is forbidden.
    """
    if address.is_here:
        return
    if is_offline:
        raise PolicyRejectionError(
            f"{purpose} would connect to {address.host}, and offline forbids connections to other machines",
            hint="set offline = false to allow them",
            host=address.host,
        )
    if not is_allowed:
        raise PolicyRejectionError(
            f"{purpose} would send data to {address.host}, which is not this machine and is not allowed",
            hint=f"set {permission} = true in the configuration file, if that is meant",
            host=address.host,
        )


def _checked_parts(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as exc:
        raise ConfigError(f"{text!r} is no URL: {exc}") from exc
    if parts.scheme not in ("http", "https") or not is_complete:
        raise ConfigError(f"{text!r} is no URL of a server", hint="such as http://127.0.0.1:8080")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("a URL must hold no user name or password", hint="use api_key_env")
    if parts.query or parts.fragment or any(character.isspace() for character in text):
        raise ConfigError(f"{text!r} has more than a scheme, a host, a port and a path")
    return parts


def _placement(text: str, host: str, stated: Placement | None) -> Placement:
    nearest, usual = _possible_places(text, host)
    if stated is None:
        return usual
    if _NEAREST_FIRST.index(stated) < _NEAREST_FIRST.index(nearest):
        raise ConfigError(f"{host} cannot be {stated}; by its address it is {nearest} at the nearest")
    return stated


def _possible_places(text: str, host: str) -> tuple[Placement, Placement]:
    """Return the nearest place the host can be, and the one to assume."""
    if host == "localhost":
        return "this_machine", "this_machine"
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return "this_network", "elsewhere"
    if address.is_unspecified:
        raise ConfigError(f"{text!r} is an address to listen on, not one to connect to", hint="use 127.0.0.1")
    if address.is_loopback:
        return "this_machine", "this_machine"
    if _is_private(address):
        return "this_network", "this_network"
    return ("elsewhere" if address.is_global else "this_network"), "elsewhere"


def _is_private(address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in _PRIVATE if network.version == address.version)
