"""One server for all contract tests, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.live_server import LiveServer, live_server

if TYPE_CHECKING:
    import openai


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with scripted models."""
    with live_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    """The official client, unchanged; it does not try again, so that a status is seen."""
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0) as made:
        yield made
