"""A server whose owners each have documents and conversations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import EMBEDDER, stored_model
from tests.live_server import LiveServer, live_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the embedder and scripted models."""
    stored_model(EMBEDDER)
    with live_server(tmp_path_factory.mktemp("server")) as running:
        yield running
