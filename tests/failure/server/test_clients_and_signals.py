"""Clients that leave, dawdle or read nothing, and a server that is told to end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from appliance.server.options import ServeOptions
from tests.conftest import EMBEDDER, REPOSITORY, stored_model
from tests.live_server import SCRIPT, LiveServer, live_server

ENDLESS = {"model": "scripted:endless", "messages": [{"role": "user", "content": "x"}], "stream": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that has little patience."""
    options = ServeOptions(port=0, header_s=0.3, body_s=0.3, drain_s=0.5)
    with live_server(tmp_path_factory.mktemp("server"), options) as running:
        yield running


def connected(server: LiveServer) -> socket.socket:
    place = urlsplit(server.url)
    return socket.create_connection((place.hostname or "", place.port or 0), timeout=10)


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something comes true within five seconds."""
    pause = threading.Event()
    for _ in range(500):
        if holds():
            return True
        pause.wait(0.01)
    return False


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_leaves_cancels_its_answer(server: LiveServer, is_streamed: bool) -> None:
    running = server.services.running
    body = json.dumps({**ENDLESS, "stream": is_streamed}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with connected(server) as client:
        client.sendall(head.encode() + body)
        assert eventually(lambda: running.count == 1)

    assert eventually(lambda: running.count == 0)


@pytest.mark.parametrize(
    "beginning", [b"", b"POST /v1/chat", b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: "]
)
def test_headers_that_do_not_come_end_the_connection(server: LiveServer, beginning: bytes) -> None:
    with connected(server) as client:
        client.sendall(beginning)

        assert client.recv(1) == b""


def test_dripping_headers_do_not_buy_time(server: LiveServer) -> None:
    pause = threading.Event()
    with connected(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
        client.settimeout(0.05)
        ended = False
        for number in range(100):
            try:
                client.sendall(f"x-{number}: y\r\n".encode())
                ended = client.recv(1) == b""
            except TimeoutError:
                pause.wait(0.0)
            except OSError:
                ended = True
            if ended:
                break

    assert ended


def test_a_body_that_does_not_come_is_a_timeout(server: LiveServer) -> None:
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.token}\r\n"
        "content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    )
    with connected(server) as client:
        client.sendall(head.encode())
        answer = b"".join(iter(lambda: client.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"request_timeout" in answer


def test_a_kept_connection_serves_again_after_a_slow_answer(server: LiveServer) -> None:
    """The patience for headers runs between requests only, never while an answer is made."""
    body = {"model": "scripted:slow", "messages": [{"role": "user", "content": "x"}]}
    with server.client() as client:
        slow = client.post("/v1/chat/completions", json=body)
        again = client.get("/health")

    assert slow.json()["choices"][0]["message"]["content"].endswith("nine ten")
    assert again.status_code == 200


def test_an_upload_that_breaks_off_leaves_no_file(server: LiveServer) -> None:
    head = (
        f"POST /v1/collections/a/documents?name=a.txt HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Bearer {server.token}\r\ncontent-type: application/octet-stream\r\n"
        "content-length: 1000\r\n\r\nbegun"
    )
    stored_model(EMBEDDER)
    incoming = server.services.appliance.settings.data_dir / "incoming"
    with server.client() as client:
        assert client.get("/v1/documents").status_code == 200
    with connected(server) as connection:
        connection.sendall(head.encode())
        assert eventually(lambda: any(incoming.rglob("a.txt")))

    assert eventually(lambda: not any(incoming.rglob("*")))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A server in a process of its own, with its address and token."""
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "APPLIANCE_SCRIPT": str(script), "APPLIANCE_MODEL": "scripted:greet"}
    command = [sys.executable, "-m", "appliance"]
    process = subprocess.Popen(
        [*command, "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    token = subprocess.run(
        [*command, "token"], capture_output=True, text=True, env=environment, check=True, cwd=REPOSITORY
    )
    try:
        yield process, line.split(";")[0].removeprefix("listening on ").strip(), token.stdout.strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_sigterm_lets_running_answers_end_and_exits_with_0(
    served: tuple[subprocess.Popen[str], str, str],
) -> None:
    process, url, token = served
    body = {"model": "scripted:slow", "messages": [{"role": "user", "content": "x"}], "stream": True}
    headers = {"authorization": f"Bearer {token}"}
    with (
        httpx.Client(base_url=url, headers=headers, timeout=20, trust_env=False) as client,
        client.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        lines = answer.iter_lines()
        first = next(line for line in lines if "one" in line)
        process.send_signal(signal.SIGTERM)
        rest = [line for line in lines if line]

    assert "one" in first
    assert rest[-1] == "data: [DONE]"
    assert any(" ten" in line for line in rest)
    assert process.wait(10) == 0


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(served: tuple[subprocess.Popen[str], str, str]) -> None:
    process, url, token = served
    headers = {"authorization": f"Bearer {token}"}
    with (
        httpx.Client(base_url=url, headers=headers, timeout=20, trust_env=False) as client,
        client.stream("POST", "/v1/chat/completions", json=ENDLESS) as answer,
    ):
        lines = answer.iter_lines()
        next(line for line in lines if "begun" in line)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)

        assert process.wait(5) == 0


def test_an_answer_that_outlasts_the_drain_ends_with_an_error(tmp_path: Path) -> None:
    lines: list[str] = []
    with live_server(tmp_path, ServeOptions(port=0, drain_s=0.2)) as server:
        begun = threading.Event()

        def read() -> None:
            with (
                server.client() as client,
                client.stream("POST", "/v1/chat/completions", json=ENDLESS) as answer,
            ):
                for line in answer.iter_lines():
                    lines.append(line)
                    if "begun" in line:
                        begun.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(10)
    reader.join(10)

    last = [line for line in lines if line.startswith("data: {")][-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "provider_unavailable"


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with live_server(tmp_path) as server:
        port = urlsplit(server.url).port or 0
        finished = subprocess.run(
            [sys.executable, "-m", "appliance", "serve", "--port", str(port), "-m", "scripted:echo"],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            check=False,
            timeout=60,
        )

    assert finished.returncode == 1
    assert f"port {port} cannot be used" in finished.stderr
