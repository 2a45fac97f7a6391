"""Log-probabilities in the chunks of a server."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from appliance.core.logprobs import LEAST_LOGPROB, Alternative, TokenLogprob
from appliance.providers.openai_http.foreign_json import at, list_at, text_at

_BYTE_VALUES = range(256)


def logprobs_in(choice: object, top: int) -> Iterator[TokenLogprob]:
    """Yield those that a choice of a chunk holds, with so many alternatives at most."""
    for entry in list_at(choice, "logprobs", "content"):
        others = [
            Alternative(
                token=text_at(other, "token"), token_bytes=_bytes_of(other), logprob=_logprob_of(other)
            )
            for other in list_at(entry, "top_logprobs")
        ]
        yield TokenLogprob(
            token=text_at(entry, "token"),
            token_bytes=_bytes_of(entry),
            logprob=_logprob_of(entry),
            top=tuple(others[:top]),
        )


def _bytes_of(entry: object) -> tuple[int, ...]:
    found = tuple(byte for byte in list_at(entry, "bytes") if isinstance(byte, int) and byte in _BYTE_VALUES)
    return found or tuple(text_at(entry, "token").encode("utf-8", "replace"))


def _logprob_of(entry: object) -> float:
    """Servers say minus infinity in ways of their own; what is no number is as unlikely as can be."""
    found = at(entry, "logprob")
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and isfinite(found)
    return (
        min(0.0, max(LEAST_LOGPROB, float(found)))
        if isinstance(found, int | float) and is_number
        else LEAST_LOGPROB
    )
