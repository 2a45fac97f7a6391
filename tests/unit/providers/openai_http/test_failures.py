"""Each way in which a server refuses becomes the error of its kind, with the numbers it names."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from appliance.core.errors import (
    ApplianceError,
    ContextOverflowError,
    ModelNotFoundError,
    RateLimitedError,
)
from appliance.providers.openai_http.failures import error_of_response, retry_after_s


def error(status: int, content: object = None, **headers: str) -> ApplianceError:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return error_of_response("box (h)", status, headers, body, model="m", key_variable="BOX_KEY")


@pytest.mark.parametrize(
    "status, content, kind, retryable",
    [
        (400, {"error": {"message": "bad temperature"}}, "invalid_request", False),
        (401, {"error": {"message": "no key"}}, "authentication", False),
        (403, {"error": "forbidden"}, "authentication", False),
        (404, {"error": {"message": "The model `x` does not exist"}}, "invalid_request", False),
        (408, None, "provider_unavailable", True),
        (413, {"detail": "too large"}, "invalid_request", False),
        (422, {"detail": [{"loc": []}]}, "invalid_request", False),
        (429, {"error": {"message": "slow down"}}, "rate_limited", True),
        (500, {"error": {"message": "boom"}}, "provider_unavailable", True),
        (501, {"error": {"message": "not here"}}, "invalid_request", False),
        (503, {"error": {"message": "Loading model"}}, "provider_unavailable", True),
        (302, b"<html>", "provider_unavailable", True),
        (529, b"\xff\xfe", "provider_unavailable", True),
    ],
)
def test_a_status_becomes_its_kind(status: int, content: object, kind: str, retryable: bool) -> None:
    failure = error(status, content).to_failure()

    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert "box (h)" in failure.message


@pytest.mark.parametrize(
    "content, prompt_tokens, context_window",
    [
        ({"error": {"type": "exceed_context_size_error", "message": "request (2031 tokens) exceeds the available "
                    "context size (1024 tokens), try increasing it", "n_prompt_tokens": 2031, "n_ctx": 1024}},
         2031, 1024),
        ({"error": {"message": "request (2031 tokens) exceeds the available context size (1024 tokens)"}},
         2031, 1024),
        ({"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested "
          "5000 tokens (4500 in the messages, 500 in the completion). Please reduce the length."}, 4500, 4096),
        ({"error": {"message": "This model's maximum context length is 4097 tokens. However, your messages resulted "
                    "in 5,012 tokens.", "code": "context_length_exceeded"}}, 5012, 4097),
        ({"error": {"message": "You passed 9000 input tokens; prompt contains 9000 input tokens, more than the "
                    "maximum model len of 8,192 tokens (context)"}}, 9000, 8192),
    ],
)  # fmt: skip
def test_a_prompt_that_is_too_long_is_an_overflow_with_both_counts(
    content: object, prompt_tokens: int, context_window: int
) -> None:
    overflow = error(400, content)

    assert isinstance(overflow, ContextOverflowError)
    assert (overflow.prompt_tokens, overflow.context_window) == (prompt_tokens, context_window)


def test_an_unknown_model_names_the_way_out() -> None:
    unknown = error(404, {"error": {"code": "model_not_found", "message": "nope"}})

    assert isinstance(unknown, ModelNotFoundError)
    assert "appliance list" in unknown.hint


def test_a_wrong_path_is_not_an_unknown_model() -> None:
    wrong = error(404, {"error": {"message": "File Not Found"}})

    assert not isinstance(wrong, ModelNotFoundError)
    assert "/v1" in wrong.hint


def test_a_wrong_key_names_the_variable() -> None:
    assert "BOX_KEY" in error(401).hint


def test_a_redirect_is_named_and_not_followed() -> None:
    assert "https://other.example/v1" in error(307, None, location="https://other.example/v1").message


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "999999"}, 3600.0),
        ({"retry-after": "-3"}, 5.0),
        ({"retry-after": "soon"}, 5.0),
        ({"retry-after": "9" * 5000}, 5.0),
        ({}, 5.0),
    ],
)
def test_when_to_come_back_is_read_within_bounds(headers: dict[str, str], seconds: float) -> None:
    limited = error(429, None, **headers)

    assert isinstance(limited, RateLimitedError)
    assert limited.retry_after_s == seconds


def test_when_to_come_back_may_be_a_date() -> None:
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    long_ago = format_datetime(datetime.now(UTC) - timedelta(days=9), usegmt=True)

    assert 55 < retry_after_s({"retry-after": in_a_minute}) <= 60
    assert retry_after_s({"retry-after": long_ago}) == 0.0


def test_another_appliance_says_what_failed_in_our_own_words() -> None:
    content = {
        "error": {
            "message": "the queue is full",
            "appliance": {"kind": "rate_limited", "retryable": True, "details": {"retry_after_s": 2.5}},
        }
    }

    limited = error(503, content)

    assert isinstance(limited, RateLimitedError)
    assert limited.retry_after_s == 2.5


@pytest.mark.parametrize(
    "own",
    [
        {"kind": "context_overflow", "details": {}},
        {"kind": "nonsense"},
        {"kind": ["rate_limited"]},
        "x",
        None,
    ],
)
def test_what_only_looks_like_our_own_words_is_read_like_any_other(own: object) -> None:
    assert error(500, {"error": {"message": "x", "appliance": own}}).kind == "provider_unavailable"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'"x"', b"[" * 100_000, b"null", b'{"error": 7}', b'{"error": {"message": 5}}']
)
def test_any_body_at_all_is_an_error_and_no_crash(content: bytes) -> None:
    assert error(400, content).kind == "invalid_request"


def test_a_message_is_bounded() -> None:
    assert len(error(400, {"error": {"message": "x" * 100_000}}).message) < 1000
