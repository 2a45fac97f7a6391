"""The constraint on one sequence: which tokens may follow, which must, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import InternalError
from appliance.structured.vocabulary import TokenVocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float32]


class ConstraintFailedError(InternalError):
    """The grammar ran into one of its limits on this text."""


class Constraint:
    """Follows the tokens of one sequence. It belongs to one thread and one request."""

    def __init__(self, matcher: LLMatcher, vocabulary: TokenVocabulary) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._words = np.zeros((len(vocabulary) + 31) // 32, dtype=np.int32)
        self.tokens: list[int] = []

    @property
    def vocabulary(self) -> TokenVocabulary:
        """The vocabulary of the model."""
        return self._vocabulary

    @property
    def is_complete(self) -> bool:
        """Whether the text is whole and nothing may follow it."""
        return bool(self._matcher.is_stopped())

    @property
    def can_stop(self) -> bool:
        """Whether the text is whole as it stands."""
        return bool(self._matcher.is_accepting())

    def mask(self) -> BoolArray:
        """Return which tokens may follow; the end tokens count when the text may stop."""
        self._matcher.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.size * 4)
        self._raise_on_error()
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little", count=len(self._vocabulary))
        return bits.view(np.bool_)

    def apply(self, logits: FloatArray) -> None:
        """Set the logits of tokens that may not follow to minus infinity, in place."""
        mask = self.mask()
        logits[: len(mask)][~mask] = -np.inf
        logits[len(mask) :] = -np.inf

    def allows(self, token: int) -> bool:
        """Whether a token may follow; cheaper than the mask."""
        if token in self._vocabulary.end_token_ids:
            return self.can_stop
        return self.count_allowed((token,)) == 1

    def count_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many of the tokens, from the first, may follow one after the other."""
        return int(self._matcher.validate_tokens(list(tokens)))

    def forced_tokens(self) -> list[int]:
        """Return the tokens that must follow, tokenized as the model would; none where there is a choice."""
        return list(self._matcher.compute_ff_tokens())

    def accept(self, tokens: Sequence[int]) -> None:
        """Advance over tokens that may follow.

        Raises:
            ConstraintFailedError: one of them may not, or the grammar hit a limit.
        """
        if not tokens:
            return
        if not self._matcher.consume_tokens(list(tokens)):
            self._raise_on_error()
            raise ConstraintFailedError("the grammar refused a token it had allowed")
        self.tokens.extend(tokens)

    def rollback(self, count: int) -> None:
        """Go back over the last tokens."""
        if count == 0:
            return
        if not self._matcher.rollback(count):
            self._raise_on_error()
        del self.tokens[len(self.tokens) - count :]

    def copy(self) -> Constraint:
        """Return an independent constraint in the same state."""
        twin = Constraint(self._matcher.deep_copy(), self._vocabulary)
        twin.tokens = list(self.tokens)
        return twin

    def _raise_on_error(self) -> None:
        if self._matcher.is_error():
            raise ConstraintFailedError(
                f"the grammar cannot go on: {self._matcher.get_error().splitlines()[0][:200]}",
                hint="simplify the patterns and counts of the schema",
            )
