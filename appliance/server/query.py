"""Refuses query parameters that a route does not know, rather than dropping them in silence."""

from __future__ import annotations

from difflib import get_close_matches

from fastapi import Request
from fastapi.routing import APIRoute

from appliance.server.guard import OPEN_PATHS
from appliance.server.problems import RefusedError


def check_query(request: Request) -> None:
    """Refuse a parameter that this route does not take; what asks whether the server lives may send anything.

    Raises:
        RefusedError: names the parameter and the nearest that there is.
    """
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or request.url.path in OPEN_PATHS:
        return
    known = [field.alias for field in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise _unknown(name[:80], known)


def _unknown(name: str, known: list[str]) -> RefusedError:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    listed = f"there are: {', '.join(known)}" if known else "this route takes none"
    return RefusedError(
        f"{name!r} is no query parameter of this request",
        status=400,
        code="unknown_parameter",
        param=name,
        hint=f"did you mean {near[0]!r}?" if near else listed,
    )
