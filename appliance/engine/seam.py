"""The seam where an answer goes on inside an open turn: white space at the end of a text belongs to the next word.

Models know most words together with the space before them. Behind a text that ends with a space they would have to
write a word without one, which they do badly. So such spaces stay out of the prompt, and the first tokens are held
to write them again; they are not shown twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from appliance.core.messages import AssistantMessage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appliance.engine.native import Vocabulary

_SPACES = " \t"
_KEPT_MASKS = 8


def without_owed(turn: AssistantMessage) -> str:
    """Return the text of an open turn as it stands in the prompt. A text of nothing but space stays whole."""
    return turn.text.rstrip(_SPACES) or turn.text


def owed_by(turn: AssistantMessage | None) -> bytes:
    """Return the space that the next tokens must begin with."""
    return turn.text[len(without_owed(turn)) :].encode() if turn is not None else b""


class OwedTokens:
    """Which tokens write what is owed, or the beginning of it, or end the turn. Kept for the texts asked for last."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._masks: dict[bytes, NDArray[np.bool_]] = {}

    def masked(self, row: NDArray[np.float32], owed: bytes) -> NDArray[np.float32]:
        """Return the logits with every other token out of the question."""
        if owed not in self._masks:
            if len(self._masks) >= _KEPT_MASKS:
                self._masks.clear()
            self._masks[owed] = self._mask(owed)
        return np.where(self._masks[owed], row, np.float32(-np.inf))

    def _mask(self, owed: bytes) -> NDArray[np.bool_]:
        vocabulary = self._vocabulary
        return np.array([self._fits(token, owed) for token in range(vocabulary.size)], np.bool_)

    def _fits(self, token: int, owed: bytes) -> bool:
        piece = self._vocabulary.piece(token)
        if not piece:
            return self._vocabulary.is_end(token)
        return piece.startswith(owed) or owed.startswith(piece)


def paid(owed: bytes, piece: bytes) -> tuple[bytes, bytes]:
    """Return what of a token's bytes is new, and what is owed after it."""
    return piece[len(owed) :], owed[len(piece) :]
