"""Log-probabilities of the tokens of an answer, read from logits and kept beside the text they belong to."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from appliance.core.logprobs import LEAST_LOGPROB, Alternative, TokenLogprob

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TokenPieces(Protocol):
    """What is needed of a vocabulary."""

    def piece(self, token: int) -> bytes: ...
    def special_piece(self, token: int) -> bytes: ...


class LogprobReader:
    """Reads rows of logits as they come from the model; satisfies `TokenScorer`.

    Args:
        top: how many alternatives are told for each token.
    """

    def __init__(self, vocabulary: TokenPieces, top: int) -> None:
        self._vocabulary = vocabulary
        self._top = top

    def read(self, row: NDArray[np.float32]) -> Callable[[int], TokenLogprob]:
        """Read a row before sampling changes it; return what tells the log-probability of the token chosen."""
        logprobs = log_softmax(row)
        top = tuple(self._alternative(token, logprobs) for token in most_likely(logprobs, self._top))

        def chosen(token: int) -> TokenLogprob:
            return self._scored(token, float(logprobs[token]), top)

        return chosen

    def settled(self, token: int) -> TokenLogprob:
        """Return what stands for a token that was settled without logits: 0, and no alternatives."""
        return self._scored(token, 0.0, ())

    def _scored(self, token: int, logprob: float, top: tuple[Alternative, ...]) -> TokenLogprob:
        data = self._vocabulary.piece(token)
        return TokenLogprob(
            token=_text_of(data), token_bytes=tuple(data), logprob=max(logprob, LEAST_LOGPROB), top=top
        )

    def _alternative(self, token: int, logprobs: NDArray[np.float64]) -> Alternative:
        data = self._vocabulary.piece(token) or self._vocabulary.special_piece(token)
        return Alternative(
            token=_text_of(data),
            token_bytes=tuple(data),
            logprob=max(float(logprobs[token]), LEAST_LOGPROB),
        )


def log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the log-probabilities of a row of logits; the row stays as it is."""
    with np.errstate(invalid="ignore"):  # a model that computes no numbers is found by what checks the token
        shifted: NDArray[np.float64] = row.astype(np.float64)
        shifted -= shifted.max()
        shifted -= np.log(np.exp(shifted).sum())
    return shifted


def most_likely(logprobs: NDArray[np.float64], count: int) -> list[int]:
    """Return the likeliest tokens, the likeliest first; of equal ones the lowest id first."""
    if count == 0:
        return []
    found = np.argpartition(logprobs, -count)[-count:] if count < len(logprobs) else np.arange(len(logprobs))
    return [int(token) for token in found[np.lexsort((found, -logprobs[found]))]]


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class LogprobLedger:
    """Holds the log-probabilities of tokens until the text they begin in is shown.

    Places are counted in characters of all that was written. A token belongs to the piece of text that its first
    character stands in; one that only continues a character belongs to the piece with that character.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._written = 0
        self._waiting: deque[tuple[int, int, TokenLogprob]] = deque()

    def add(self, logprob: TokenLogprob) -> None:
        """Add the next token that was written."""
        start = self._written
        self._written += len(self._decoder.decode(bytes(logprob.token_bytes)))
        has_begun_another = bool(self._decoder.getstate()[0])
        end = max(self._written + has_begun_another, start + 1)
        self._waiting.append((start, end, logprob))

    def take(self, start: int, end: int) -> tuple[TokenLogprob, ...]:
        """Return the tokens of a piece of text that is shown; those before it are dropped: nobody will see them."""
        taken: list[TokenLogprob] = []
        while self._waiting and self._waiting[0][0] < end:
            _, token_end, logprob = self._waiting.popleft()
            if token_end > start:
                taken.append(logprob)
        return tuple(taken)
