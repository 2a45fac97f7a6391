"""`/health`, `/ready` and `/metrics`: whether the server works, and its numbers."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse

from appliance import __version__
from appliance.core.errors import ApplianceError
from appliance.server.services import NEEDS_METRICS, ServicesOf
from appliance.server.wire import JsonObject

router = APIRouter(tags=["Health"])


@router.get("/health")
async def health() -> JsonObject:
    """Say that the process answers. Needs no token."""
    return {"status": "ok", "version": __version__}


@router.get("/ready")
async def ready(services: ServicesOf) -> JSONResponse:
    """Say whether new work is taken: not while draining, nor when the store or the model is missing."""
    reason = "draining" if services.running.is_draining else await _missing(services)
    body = {"status": "not ready" if reason else "ready", "reason": reason}
    return JSONResponse(body, status_code=503 if reason else 200)


@router.get("/metrics", dependencies=[NEEDS_METRICS])
async def metrics(services: ServicesOf) -> PlainTextResponse:
    """Return the numbers of this process for Prometheus."""
    text = services.appliance.telemetry.metrics.render()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _missing(services: ServicesOf) -> str:
    try:
        await services.appliance.gateway.capabilities(services.appliance.settings.model)
        with services.database.read() as connection:
            connection.execute("SELECT 1")
    except ApplianceError as exc:
        return exc.message
    return ""
