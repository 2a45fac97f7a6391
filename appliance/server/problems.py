"""Failures as OpenAI-shaped error bodies: one table from kinds of failure to status, type and code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.core.errors import (
    ApplianceError,
    Failure,
    FailureKind,
    InvalidRequestError,
    ModelNotFoundError,
)

# What a client has gone away from is answered to nobody; the status stands in logs and metrics.
CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True, slots=True)
class _Row:
    status: int
    type: str
    code: str


_TABLE: dict[FailureKind, _Row] = {
    "invalid_request": _Row(400, "invalid_request_error", "invalid_request"),
    "context_overflow": _Row(400, "invalid_request_error", "context_length_exceeded"),
    "authentication": _Row(401, "authentication_error", "invalid_api_key"),
    "rate_limited": _Row(429, "rate_limit_error", "rate_limit_exceeded"),
    "timeout": _Row(504, "timeout_error", "timeout"),
    "provider_unavailable": _Row(503, "server_error", "provider_unavailable"),
    "policy_rejection": _Row(403, "permission_error", "policy_rejection"),
    "malformed_output": _Row(502, "server_error", "malformed_output"),
    "cancelled": _Row(CLIENT_CLOSED_REQUEST, "server_error", "cancelled"),
    "engine_crashed": _Row(503, "server_error", "engine_crashed"),
    "internal": _Row(500, "server_error", "internal_error"),
}


# The field that asks for what a model cannot do.
_FIELDS = {"json_schema": "response_format", "logprobs": "logprobs", "tools": "tools"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as it is answered. `param` names the field of the request that is wrong."""

    status: int
    type: str
    code: str
    failure: Failure
    param: str | None = None

    def body(self) -> dict[str, object]:
        """Return OpenAI's error body, with what we know beyond it under a field of ours."""
        failure = self.failure
        return {
            "error": {
                "message": f"{failure.message} ({failure.hint})" if failure.hint else failure.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
                "appliance": {
                    "kind": failure.kind,
                    "hint": failure.hint,
                    "retryable": failure.retryable,
                    "details": dict(failure.details),
                },
            }
        }

    def headers(self) -> dict[str, str]:
        """Return the headers that say whether and when to come back."""
        headers = {"x-should-retry": "true" if self.failure.retryable else "false"}
        retry_after_s = self.failure.details.get("retry_after_s")
        if isinstance(retry_after_s, int | float):
            headers["retry-after"] = str(max(1, math.ceil(retry_after_s)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers


class RefusedError(InvalidRequestError):
    """A request refused before it reaches a route, with the status and code to answer."""

    def __init__(self, message: str, *, status: int, code: str, hint: str = "", param: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.param = param


def refused(message: str, *, param: str, hint: str = "", code: str = "unsupported_value") -> RefusedError:
    """Return the refusal of a field whose value this server does not serve."""
    return RefusedError(message, status=400, code=code, hint=hint, param=param)


def not_found(message: str, *, hint: str = "", code: str = "not_found") -> RefusedError:
    """Return the one error for what does not exist and for what belongs to somebody else."""
    return RefusedError(message, status=404, code=code, hint=hint)


def problem_of(error: ApplianceError) -> Problem:
    """Return how an error is answered."""
    problem = problem_of_failure(error.to_failure())
    match error:
        case RefusedError():
            return _changed(problem, status=error.status, code=error.code, param=error.param or None)
        case ModelNotFoundError():
            return _changed(problem, status=404, code="model_not_found", param="model")
        case _:
            return problem


def problem_of_failure(failure: Failure) -> Problem:
    """Return how a failure inside a stream is answered."""
    row = _TABLE[failure.kind]
    pointer = failure.details.get("pointer") or _FIELDS.get(str(failure.details.get("missing")))
    return Problem(
        status=row.status,
        type=row.type,
        code=row.code,
        failure=failure,
        param=pointer if isinstance(pointer, str) and pointer else None,
    )


def status_table() -> Mapping[FailureKind, int]:
    """Return the status of each kind of failure, for documentation and tests."""
    return {kind: row.status for kind, row in _TABLE.items()}


def _changed(problem: Problem, *, status: int, code: str, param: str | None) -> Problem:
    return Problem(status=status, type=_type_of(status), code=code, failure=problem.failure, param=param)


def _type_of(status: int) -> str:
    return "permission_error" if status == 403 else "invalid_request_error"
