"""Choose the next token from a row of logits: greedy in numpy, everything else in llama.cpp's sampler chain."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import llama_cpp.llama_cpp as lib
import numpy as np

from appliance.core.requests import SamplingParams
from appliance.engine.native import Context

if TYPE_CHECKING:
    from numpy.typing import NDArray

# One candidate as llama.cpp's sampler chain takes it.
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("probability", np.float32)])

# Logits divided by less overflow; at this one, a draw already takes the largest logit.
_LEAST_TEMPERATURE = 1e-6

_RANDOM_SEED = 0xFFFFFFFF  # llama.cpp takes this value for "draw a seed", so it is never passed on


class Sampler:
    """The sampling state of one sequence.

    The chain's order is logit bias, penalties, top-k, top-p, min-p, temperature, draw. With temperature 0 the
    largest logit wins after bias and penalties; of equal logits the lowest token id.
    """

    def __init__(self, params: SamplingParams, *, vocabulary_size: int, prompt: Sequence[int]) -> None:
        self.seed = _usable_seed(params.seed)
        self._bias_tokens, self._bias_values = _bias_arrays(params)
        self._chain: lib.llama_sampler_p | None = None
        if not params.is_greedy or _has_penalties(params):
            self._chain = _build_chain(params, self.seed, vocabulary_size)
            for token in prompt[-params.penalty_last_tokens :] if _has_penalties(params) else ():
                lib.llama_sampler_accept(self._chain, token)

    @property
    def is_plain_greedy(self) -> bool:
        """Whether the largest logit as it stands is always taken."""
        return self._chain is None and not self._bias_tokens.size

    def choose(self, context: Context, row: NDArray[np.float32], batch_index: int) -> int:
        """Pick a token from a logits row and remember it.

        Args:
            row: the logits, shape (vocabulary,); a bias is added in place.
            batch_index: the position in the batch of the token that has this row.
        """
        if self._bias_tokens.size:
            row[self._bias_tokens] += self._bias_values
        if self._chain is None:
            return int(row.argmax())
        return int(lib.llama_sampler_sample(self._chain, context.pointer, batch_index))

    def choose_from_row(self, row: NDArray[np.float32]) -> int:
        """Pick a token from any logits row; tokens at minus infinity are out of the question."""
        if self._bias_tokens.size:
            row[self._bias_tokens] += self._bias_values
        if self._chain is None:
            return int(row.argmax())
        allowed = np.flatnonzero(np.isfinite(row))
        candidates = np.zeros(len(allowed), _CANDIDATE)
        candidates["id"] = allowed
        candidates["logit"] = row[allowed]
        array = lib.llama_token_data_array(
            ctypes.cast(candidates.ctypes.data, ctypes.POINTER(lib.llama_token_data)), len(allowed), -1, False
        )
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        token = int(array.data[array.selected].id)
        lib.llama_sampler_accept(self._chain, token)
        return token

    def accept(self, token: int) -> None:
        """Remember a token that was not chosen here but forced."""
        if self._chain is not None:
            lib.llama_sampler_accept(self._chain, token)

    def close(self) -> None:
        """Free the chain."""
        if self._chain is not None:
            lib.llama_sampler_free(self._chain)
            self._chain = None


def _usable_seed(seed: int | None) -> int:
    drawn = secrets.randbits(32) if seed is None else seed
    return min(drawn, _RANDOM_SEED - 1)


def _has_penalties(params: SamplingParams) -> bool:
    is_neutral = (
        params.repeat_penalty == 1.0 and params.presence_penalty == 0.0 and params.frequency_penalty == 0.0
    )
    return not is_neutral and params.penalty_last_tokens > 0


def _bias_arrays(params: SamplingParams) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    biases = params.logit_bias
    return np.array(list(biases), np.int64), np.array(list(biases.values()), np.float32)


def _build_chain(params: SamplingParams, seed: int, vocabulary_size: int) -> lib.llama_sampler_p:
    chain_params = lib.llama_sampler_chain_default_params()
    chain_params.no_perf = True
    chain: lib.llama_sampler_p = lib.llama_sampler_chain_init(chain_params)
    links = []
    if _has_penalties(params):
        links.append(
            lib.llama_sampler_init_penalties(
                vocabulary_size,
                params.penalty_last_tokens,
                params.repeat_penalty,
                params.frequency_penalty,
                params.presence_penalty,
            )
        )
    if params.is_greedy:
        links.append(lib.llama_sampler_init_greedy())
    else:
        links += _drawing_links(params, seed)
    for link in links:
        lib.llama_sampler_chain_add(chain, link)
    return chain


def _drawing_links(params: SamplingParams, seed: int) -> list[lib.llama_sampler_p]:
    links = []
    if params.top_k > 0:
        links.append(lib.llama_sampler_init_top_k(params.top_k))
    if params.top_p < 1.0:
        links.append(lib.llama_sampler_init_top_p(params.top_p, 1))
    if params.min_p > 0.0:
        links.append(lib.llama_sampler_init_min_p(params.min_p, 1))
    links.append(lib.llama_sampler_init_temp(max(params.temperature, _LEAST_TEMPERATURE)))
    links.append(lib.llama_sampler_init_dist(seed))
    return links
