"""A constrained answer inside a slot: which positions to evaluate next, and what their logits lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.core.errors import MalformedOutputError
from appliance.structured.compiler import CompiledFormat
from appliance.structured.decoder import ConstrainedDecoder, DecodeOptions, DecodeOutcome
from appliance.structured.scoring import TokenScorer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST_DRAFT = 16
_REPAIRS = 12

LAST = (0,)
"""The outputs of a plan whose last token alone needs logits."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Tokens to evaluate from a position on; `outputs` are those that need logits, 0 being the last one."""

    position: int
    tokens: Sequence[int]
    outputs: tuple[int, ...]


class ConstrainedText:
    """Drives one decoder against the cells of one sequence.

    Args:
        base: the tokens before the answer; the decoder counts its own tokens from there.
        can_rewind: whether the sequence can be cut back, which drafts and second tries need.
    """

    def __init__(
        self,
        compiled: CompiledFormat,
        *,
        base: Sequence[int],
        max_tokens: int,
        is_greedy: bool,
        can_rewind: bool,
        choose: Callable[[NDArray[np.float32]], int],
        scorer: TokenScorer | None = None,
    ) -> None:
        self._base = list(base)
        options = DecodeOptions(
            max_tokens=max_tokens,
            max_draft_tokens=_LONGEST_DRAFT if can_rewind else 0,
            repairs=_REPAIRS if can_rewind else 0,
            is_greedy=is_greedy,
        )
        self._decoder = ConstrainedDecoder(
            compiled,
            prompt_tokens=base,
            options=options,
            choose=lambda row, _output: choose(row),
            scorer=scorer,
        )

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Output tokens, forward passes, drafted tokens and accepted drafts so far."""
        counts = self._decoder.counts
        return (
            len(self._decoder.output_tokens),
            counts.forward_passes,
            counts.drafted_tokens,
            counts.accepted_drafts,
        )

    @property
    def tokens(self) -> list[int]:
        """What stands: the base and the output that was not taken back."""
        return [*self._base, *self._decoder.output_tokens]

    def plan(self) -> Plan | None:
        """What to evaluate next; None when the text is whole or has failed already."""
        step = self._decoder.next_step()
        if self._decoder.state != "running":
            return None
        if step.tokens:
            return Plan(len(self._base) + step.keep, step.tokens, step.logits_at)
        return Plan(len(self._base) - 1, self._base[-1:], LAST)

    def take(self, rows: Sequence[NDArray[np.float32]]) -> DecodeOutcome:
        """Act on the logits of the plan; rows are changed in place."""
        return self._decoder.on_logits(rows)

    def outcome(self) -> DecodeOutcome:
        """How it stands without new logits."""
        return self._decoder.outcome()

    def error(self, outcome: DecodeOutcome) -> MalformedOutputError:
        """The typed failure of a text that could not be made valid; the raw text is kept."""
        problems = "; ".join(
            f"{problem.pointer or '/'}: {problem.message}" for problem in outcome.problems[:5]
        )
        return MalformedOutputError(
            f"the output does not satisfy the format: {problems}",
            raw_text=self._decoder.raw_text,
            hint="raise max_tokens, simplify the schema, or ask a larger model",
        )
