"""Where the server may listen, and which names of it are believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.core.errors import ConfigError
from appliance.server.options import ServeOptions

EVERYWHERE = "0.0.0.0"  # noqa: S104  what is refused


@pytest.mark.parametrize("host", [EVERYWHERE, "192.168.1.5", "::", "example.org", "10.0.0.1", ""])
def test_another_address_than_loopback_needs_tls_or_a_word(host: str) -> None:
    with pytest.raises(ConfigError, match="without TLS"):
        ServeOptions(host=host)

    assert not ServeOptions(host=host, may_lack_tls=True).is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_loopback_needs_neither(host: str) -> None:
    assert ServeOptions(host=host).is_loopback


def test_half_of_tls_is_none(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("x")

    with pytest.raises(ConfigError, match="both"):
        ServeOptions(tls_certificate=file)
    with pytest.raises(ConfigError, match="no file"):
        ServeOptions(tls_certificate=file, tls_key=tmp_path / "missing.pem")
    assert ServeOptions(host=EVERYWHERE, tls_certificate=file, tls_key=file).has_tls


@pytest.mark.parametrize("origin", ["*", "example.org", "https://example.org/", "https://*.example.org"])
def test_an_origin_is_written_in_full(origin: str) -> None:
    with pytest.raises(ConfigError):
        ServeOptions(allowed_origins=(origin,))


def test_only_names_that_cannot_be_rebound_are_believed() -> None:
    local = ServeOptions()
    wide = ServeOptions(host=EVERYWHERE, may_lack_tls=True, allowed_hosts=("ai.example.org",))

    assert all(local.knows_host(host, "127.0.0.1") for host in ("localhost:8427", "127.0.0.1", "[::1]:8427"))
    assert not any(
        local.knows_host(host, "127.0.0.1") for host in ("evil.example", "", "localhost.evil", "::1x")
    )
    assert wide.knows_host("AI.example.org:8427", "10.0.0.5")
    assert wide.knows_host("10.0.0.5:8427", "10.0.0.5")
    assert wide.knows_host("localhost:8427", "127.0.0.1")
    strangers = ("localhost", "10.0.0.6", "example.org", EVERYWHERE, "")
    assert not any(wide.knows_host(host, "10.0.0.5") for host in strangers)
    assert not wide.knows_host(EVERYWHERE, EVERYWHERE)
