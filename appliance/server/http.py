"""The ASGI application: routes, how errors are answered, and the guard around it."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from appliance import __version__
from appliance.core.errors import ApplianceError, InternalError
from appliance.server.denials import Denials
from appliance.server.guard import Guard
from appliance.server.openai import chat, completions, embeddings, models, responses, tokens
from appliance.server.own import admin, answers, conversations, documents, forgetting, health, tickets
from appliance.server.problems import RefusedError, problem_of
from appliance.server.query import check_query
from appliance.server.services import Services

_ROUTERS = (
    chat.router,
    completions.router,
    responses.router,
    embeddings.router,
    models.router,
    tokens.router,
    documents.router,
    answers.router,
    conversations.router,
    tickets.router,
    forgetting.router,
    admin.router,
    health.router,
)
# The name of a collection may hold slashes.
_BINARY_PATH = re.compile(r"/v1/collections(/.*)?/documents")
_CODES = {404: "not_found", 405: "method_not_allowed"}

_log = logging.getLogger(__name__)


def build_http(services: Services) -> ASGIApp:
    """Return the whole application, closed by default: the guard lets in what may come in."""
    denials = Denials(services.audit)
    return Guard(
        build_routes(services),
        services.options,
        services.tokens.check,
        takes_binary=lambda path: _BINARY_PATH.fullmatch(path) is not None,
        on_denied=denials.note,
    )


def build_routes(services: Services) -> FastAPI:
    """Return the routes alone. The pages that show the API load scripts from elsewhere, so there are none."""
    app = FastAPI(
        title="appliance",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        dependencies=[Depends(check_query)],
    )
    app.state.services = services
    for router in _ROUTERS:
        app.include_router(router)
    app.add_exception_handler(ApplianceError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(Exception, _answer_bug)
    return app


async def _answer_error(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    assert isinstance(error, ApplianceError)
    problem = problem_of(error)
    if problem.status >= 500:
        _log.warning("%s: %s", problem.code, type(error).__name__)
    return JSONResponse(problem.body(), status_code=problem.status, headers=problem.headers())


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return await _answer_error(request, invalid_body(error.errors(), error.body))


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "invalid_request")
    message = (
        f"there is no {request.method} {request.url.path[:200]}"
        if code != "invalid_request"
        else error.detail
    )
    refusal = RefusedError(message, status=error.status_code, code=code)
    response = await _answer_error(request, refusal)
    response.headers.update(error.headers or {})
    return response


async def _answer_bug(request: Request, error: Exception) -> JSONResponse:
    _log.error("a route failed", exc_info=error)
    bug = InternalError(f"the server failed with {type(error).__name__}", hint="its log says where")
    response = await _answer_error(request, bug)
    # The connection is closed after a bug; a client must not send its next request on it.
    response.headers["connection"] = "close"
    return response


def invalid_body(problems: Sequence[object], body: object) -> RefusedError:
    """Return the refusal of a body by what the first problem of it is; an unknown field is named as one."""
    first = problems[0] if problems and isinstance(problems[0], dict) else {}
    place = _place(first.get("loc", ()), body)
    if first.get("type") == "extra_forbidden":
        return RefusedError(
            f"{place} is no field of this request",
            status=400,
            code="unknown_parameter",
            param=place,
            hint="leave it out; fields that are not known are never dropped in silence",
        )
    code = "missing_required_parameter" if first.get("type") == "missing" else "invalid_value"
    return RefusedError(f"{place}: {first.get('msg', 'is not valid')}", status=400, code=code, param=place)


def _place(location: object, body: object) -> str:
    """Return where in the body something is, as `messages[0].content`. Names of union members are left out."""
    parts = list(location) if isinstance(location, tuple | list) else []
    source = parts.pop(0) if parts and parts[0] in ("body", "query", "path") else ""
    place, value = "", body
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        if isinstance(part, int):
            place += f"[{part}]"
            value = value[part] if isinstance(value, list) and part < len(value) else None
        elif source != "body" or (isinstance(value, dict) and (is_last or part in value)):
            place += f".{part}" if place else str(part)
            value = value.get(part) if isinstance(value, dict) else None
    return place[:300] or "body"
