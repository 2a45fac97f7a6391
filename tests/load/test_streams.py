"""Many streaming clients at one time on the starter model: none lost, none mixed, nobody starved, memory bounded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.conftest import STARTER, stored_model
from tests.live_server import LiveServer, live_server
from tests.load.streaming_clients import resident_bytes, run_clients

pytestmark = [pytest.mark.load, pytest.mark.slow]

CLIENTS, TURNS = 5, 2
GROWTH_BYTES = 256 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server of the starter model, which is loaded."""
    stored_model(STARTER)
    folder = tmp_path_factory.mktemp("server")
    with live_server(folder, model=STARTER, context_window=1024) as running:
        with running.client() as client:
            body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
            assert client.post("/v1/chat/completions", json=body).status_code == 200
        yield running


def test_every_client_gets_its_own_streams_whole(server: LiveServer) -> None:
    tokens = [server.token_of(f"user{number}") for number in range(3)]
    before_bytes = resident_bytes(os.getpid())

    seen = asyncio.run(run_clients(server.url, tokens, clients=CLIENTS, turns=TURNS, tokens=8))

    assert seen.faults == []
    assert seen.finished == dict.fromkeys(range(CLIENTS), TURNS)
    assert resident_bytes(os.getpid()) - before_bytes < GROWTH_BYTES
    assert server.services.running.count == 0


def test_the_prefix_of_one_user_is_not_reused_for_another_on_real_weights(server: LiveServer) -> None:
    question = " ".join(f"fact{number}" for number in range(60))
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 1, "temperature": 0}

    def cached(token: str) -> int:
        with server.client(token) as client:
            usage = client.post("/v1/chat/completions", json=body).json()["usage"]
        count: int = usage["prompt_tokens_details"]["cached_tokens"]
        return count

    mine, other = server.token_of("mine"), server.token_of("other")
    first, second, foreign = cached(mine), cached(mine), cached(other)
    with server.client(mine) as client:
        client.post("/v1/forget", json={"everything": True}).raise_for_status()
    forgotten, kept = cached(mine), cached(other)

    assert second > 100
    assert first < second / 2
    assert foreign == forgotten == first
    assert kept == second
