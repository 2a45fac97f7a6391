"""A bug of a route is a typed error of its own request; what it was about stays in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from appliance.server.http import build_routes
from tests.live_server import live_server


async def test_a_bug_is_answered_without_what_it_was_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL), live_server(tmp_path) as server:
        app = build_routes(server.services)

        @app.get("/bug")
        async def bug() -> None:
            raise ZeroDivisionError("somebody's secret")

        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            failed = await client.get("/bug")

    assert failed.status_code == 500
    assert failed.json()["error"]["code"] == "internal_error"
    assert "ZeroDivisionError" in failed.json()["error"]["message"]
    assert "secret" not in failed.text
    assert failed.headers["connection"] == "close"
