"""With TLS files the server speaks TLS; pages on the list may call, and learn so from a preflight."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from appliance.server.options import ServeOptions
from tests.live_server import live_server

PAGE = "https://chat.example.org"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(paths[1]), "-out", str(paths[0])],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return paths


def test_tls_is_spoken_and_nothing_else(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    options = ServeOptions(port=0, tls_certificate=certificate[0], tls_key=certificate[1])
    (tmp_path / "server").mkdir()
    with live_server(tmp_path / "server", options) as server:
        context = ssl.create_default_context(cafile=str(certificate[0]))
        with httpx.Client(verify=context, trust_env=False) as client:
            health = client.get(f"{server.url}/health")
        with httpx.Client(trust_env=False) as client, pytest.raises(httpx.HTTPError):
            client.get(server.url.replace("https:", "http:") + "/health")

    assert server.url.startswith("https://127.0.0.1:")
    assert health.json()["status"] == "ok"


def test_a_page_on_the_list_may_call_and_others_may_not(tmp_path: Path) -> None:
    with (
        live_server(tmp_path, ServeOptions(port=0, allowed_origins=(PAGE,))) as server,
        server.client() as client,
    ):
        preflight = client.options("/v1/models", headers={"origin": PAGE})
        answer = client.get("/v1/models", headers={"origin": PAGE})
        without = client.get("/v1/models", headers={"origin": PAGE, "authorization": ""})
        other = client.options("/v1/models", headers={"origin": "https://evil.example"})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert (without.status_code, without.headers["access-control-allow-origin"]) == (401, PAGE)
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other.headers
