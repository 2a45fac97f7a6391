"""What a server answers instead of an answer, and how a connection fails, as errors of the appliance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import get_args

from appliance.core.errors import (
    ApplianceError,
    AuthenticationError,
    ContextOverflowError,
    Failure,
    FailureKind,
    InvalidRequestError,
    ModelNotFoundError,
    PolicyRejectionError,
    ProviderUnavailableError,
    RateLimitedError,
    error_of,
)
from appliance.providers.openai_http.foreign_json import at, count_at, parsed, text_at

LONGEST_MESSAGE = 500
USUAL_RETRY_S = 5.0
_LONGEST_RETRY_S = 3600.0
_OVERFLOW_CODES = frozenset(("context_length_exceeded", "exceed_context_size_error"))
_WINDOW = re.compile(
    r"(?:maximum|max|available)?[ _](?:context|model)[ _](?:length|size|window|len)[^\d]{0,40}?(\d[\d,]*)",
    re.IGNORECASE,
)
_PROMPT = (
    re.compile(r"\((\d[\d,]*) in the (?:messages|input|prompt)", re.IGNORECASE),
    re.compile(
        r"(?:resulted in|contains at least|prompt contains|request has|has) (\d[\d,]*)", re.IGNORECASE
    ),
    re.compile(r"(?:request|prompt|input)[^\d.]{0,24}\(?(\d[\d,]*) (?:input )?tokens", re.IGNORECASE),
    re.compile(r"requested (\d[\d,]*)", re.IGNORECASE),
)


def error_of_response(
    server: str, status: int, headers: Mapping[str, str], body: bytes, *, model: str, key_variable: str = ""
) -> ApplianceError:
    """Return the error that a response with a status other than 200 stands for."""
    content = parsed(body)
    message = _message(content) or f"status {status}"
    said = f"{server} refused: {message}"
    if (own := _own_failure(content)) is not None:
        return own
    if (overflow := _overflow(content, message, status)) is not None:
        return overflow
    if status in (401, 403):
        hint = f"check the key in the variable {key_variable}" if key_variable else "state api_key_env for it"
        return AuthenticationError(said, hint=hint, status=status)
    if status == 404:
        return _not_found(server, content, said, model)
    if status == 429:
        return RateLimitedError(said, retry_after_s=retry_after_s(headers), hint="come back then")
    if status in (408, 409, 425) or (status >= 500 and status != 501):
        return ProviderUnavailableError(
            f"{server} cannot answer now: {message}",
            hint="see what the server logs",
            status=status,
            retry_after_s=retry_after_s(headers),
        )
    if 300 <= status < 400:
        target = headers.get("location", "another address")[:LONGEST_MESSAGE]
        return ProviderUnavailableError(
            f"{server} points to {target}, and redirects are not followed",
            hint="state that URL",
            status=status,
        )
    return InvalidRequestError(said, status=status)


def error_in_stream(server: str, content: object) -> ApplianceError:
    """Return the error that an event inside a stream stands for."""
    if (own := _own_failure(content)) is not None:
        return own
    message = _message(content) or "an error without a message"
    status = count_at(content, "error", "code") or count_at(content, "code") or 500
    if (overflow := _overflow(content, message, status)) is not None:
        return overflow
    if 400 <= status < 500 and status not in (408, 409, 425, 429):
        return InvalidRequestError(f"{server} refused: {message}")
    return ProviderUnavailableError(f"{server} stopped answering: {message}")


def withheld(server: str) -> ApplianceError:
    """Return the error of an answer that the server's own filter held back."""
    return PolicyRejectionError(f"a content filter of {server} withheld the answer")


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return when to come back: seconds or a date, within an hour."""
    stated_ms = headers.get("retry-after-ms", "")
    if re.fullmatch(r"\d{1,9}(\.\d+)?", stated_ms):
        return min(float(stated_ms) / 1000, _LONGEST_RETRY_S)
    stated = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", stated):
        return min(float(stated), _LONGEST_RETRY_S)
    try:
        date = parsedate_to_datetime(stated)
    except ValueError:
        return USUAL_RETRY_S
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return min(max((date - datetime.now(UTC)).total_seconds(), 0.0), _LONGEST_RETRY_S)


def _message(content: object) -> str:
    error = at(content, "error")
    found = text_at(error, "message") or (error if isinstance(error, str) else "")
    found = found or text_at(content, "message") or text_at(content, "detail")
    return found[:LONGEST_MESSAGE]


def _own_failure(content: object) -> ApplianceError | None:
    """Return the failure as another appliance states it, numbers and all."""
    kind = text_at(content, "error", "appliance", "kind")
    if kind not in get_args(FailureKind):
        return None
    details = at(content, "error", "appliance", "details")
    shape = {"context_overflow": ("prompt_tokens", "context_window", "reserved_tokens"),
             "rate_limited": ("retry_after_s",), "timeout": ("phase",), "malformed_output": ("raw_text",)}  # fmt: skip
    stated = details if isinstance(details, dict) else {}
    if any(name not in stated for name in shape.get(kind, ())):
        return None
    failure = Failure(
        kind=next(known for known in get_args(FailureKind) if known == kind),
        message=_message(content),
        retryable=at(content, "error", "appliance", "retryable") is True,
        details={
            str(name): value for name, value in stated.items() if isinstance(value, str | int | float | bool)
        },
    )
    return error_of(failure)


def _overflow(content: object, message: str, status: int) -> ContextOverflowError | None:
    codes = {text_at(content, "error", "code"), text_at(content, "error", "type"), text_at(content, "code")}
    lower = message.lower()
    is_meant = bool(codes & _OVERFLOW_CODES) or (
        status in (400, 413, 422) and "token" in lower and ("context" in lower or "model len" in lower)
    )
    if not is_meant:
        return None
    prompt_tokens = count_at(content, "error", "n_prompt_tokens") or _first_number(_PROMPT, message)
    window = count_at(content, "error", "n_ctx") or _first_number((_WINDOW,), message)
    return ContextOverflowError(prompt_tokens=prompt_tokens, context_window=window)


def _first_number(patterns: tuple[re.Pattern[str], ...], message: str) -> int:
    for pattern in patterns:
        if (match := pattern.search(message)) is not None:
            return int(match[1].replace(",", ""))
    return 0


def _not_found(server: str, content: object, said: str, model: str) -> ApplianceError:
    if "model" in _message(content).lower() or text_at(content, "error", "code") == "model_not_found":
        return ModelNotFoundError(said, hint="`appliance list` lists what it serves", model=model)
    return InvalidRequestError(
        f"{server} has no such API: {_message(content) or 'status 404'}",
        hint="state the URL up to, and not beyond, /v1",
        status=404,
    )
