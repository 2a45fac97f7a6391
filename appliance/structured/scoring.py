"""What a decoder needs of whoever reads log-probabilities from rows of logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from appliance.core.logprobs import TokenLogprob
from appliance.structured.constraint import FloatArray


class TokenScorer(Protocol):
    """Gives the log-probabilities of the tokens that are written."""

    def read(self, row: FloatArray) -> Callable[[int], TokenLogprob]:
        """Read a row that nothing has changed yet; return what tells the log-probability of the token chosen."""
        ...

    def settled(self, token: int) -> TokenLogprob:
        """Return what stands for a token that was settled without logits: 0, and no alternatives."""
        ...
