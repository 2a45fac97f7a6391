"""How likely a model held the tokens it wrote: values that travel with the text."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON cannot say."""

MOST_TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A token that could have been written. `token_bytes` are its bytes, which alone may be no whole character."""

    token: str
    token_bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token of an answer and its log-probability under the model's unmodified distribution.

    No bias, penalty, temperature or output format is in it, so a token that a format forced can be one that the
    model held for unlikely. `top` are the most likely tokens at its place, the likeliest first; the one that was
    written need not be among them. A token that was settled without asking the model, because an output format
    left only it, has a log-probability of 0 and no alternatives.
    """

    token: str
    token_bytes: tuple[int, ...]
    logprob: float
    top: tuple[Alternative, ...] = ()
