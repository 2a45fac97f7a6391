"""Sampling of a request: what it states over what the settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from appliance.core.requests import Deadline, SamplingParams
from appliance.server.openai.chat_wire import SamplingWire
from appliance.server.problems import refused

_Number = TypeVar("_Number", int, float)

_SEEDS = 2**32


def sampling_of(usual: SamplingParams, body: SamplingWire, *, max_tokens: int | None) -> SamplingParams:
    """Return the sampling of a request; what it leaves out is as usual.

    Raises:
        InvalidRequestError: a value is outside its range.
    """
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return replace(
        usual,
        temperature=_or(body.temperature, usual.temperature),
        top_p=_or(body.top_p, usual.top_p),
        top_k=_or(body.top_k, usual.top_k),
        min_p=_or(body.min_p, usual.min_p),
        repeat_penalty=_or(body.repeat_penalty, usual.repeat_penalty),
        presence_penalty=_or(body.presence_penalty, usual.presence_penalty),
        frequency_penalty=_or(body.frequency_penalty, usual.frequency_penalty),
        # Seeds of OpenAI have 64 bits and may be negative; those of the engine have 32.
        seed=None if body.seed is None else body.seed % _SEEDS,
        stop=stop,
        logit_bias=_biases(body.logit_bias or {}),
        max_tokens=max_tokens or usual.max_tokens,
    )


def for_choice(sampling: SamplingParams, number: int) -> SamplingParams:
    """Return the sampling of one of several answers: with a seed each has its own, the first has the stated."""
    if sampling.seed is None or number == 0:
        return sampling
    return replace(sampling, seed=(sampling.seed + number) % _SEEDS)


def deadline_of(body: SamplingWire) -> Deadline:
    """Return the limit that a request states for all of it."""
    return Deadline(total_s=body.deadline_s)


def _or(stated: _Number | None, usual: _Number) -> _Number:
    return usual if stated is None else stated


def _biases(stated: Mapping[str, float]) -> dict[int, float]:
    biases: dict[int, float] = {}
    for token_id, bias in stated.items():
        if not (token_id.isascii() and token_id.isdigit() and len(token_id) < 10):
            raise refused(
                f"{token_id[:40]!r} is no token id", param="logit_bias", code="invalid_value",
                hint="the names in logit_bias are token ids of the model, as /tokenize gives them",
            )  # fmt: skip
        if not -100 <= bias <= 100:
            raise refused(
                f"the bias {bias:g} is not between -100 and 100", param="logit_bias", code="invalid_value"
            )
        biases[int(token_id)] = bias
    return biases
