"""The budget of a prompt and how sections that can be cut share what is left of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.errors import InvalidRequestError

CuttableSection = Literal["memory", "summary", "documents", "turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBudget:
    """Tokens a prompt may take: the context window without the reserve for the answer and a margin."""

    context_window: int
    reserved_tokens: int
    margin_tokens: int = 0

    def __post_init__(self) -> None:
        if self.reserved_tokens < 1 or self.margin_tokens < 0:
            raise InvalidRequestError("the reserve for an answer is at least 1 token, the margin at least 0")
        if self.available_tokens < 1:
            raise InvalidRequestError(
                f"a context window of {self.context_window} tokens has no room beside {self.reserved_tokens} "
                f"tokens reserved for the answer",
                hint="reserve less for the answer, or load the model with a larger context window",
            )

    @property
    def available_tokens(self) -> int:
        """What is left for the prompt."""
        return self.context_window - self.reserved_tokens - self.margin_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRule:
    """How a section shares: `floor_share` of what can be shared is kept for it while it wants it, and it
    takes at most `ceiling_share`.
    """

    name: CuttableSection
    floor_share: float
    ceiling_share: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor_share <= self.ceiling_share <= 1.0:
            raise InvalidRequestError(
                f"the shares of {self.name} are {self.floor_share} and {self.ceiling_share}; they must be in order "
                "and between 0 and 1"
            )


# In order of priority. Documents answer the question; what was said last explains it.
DEFAULT_RULES = (
    SectionRule(name="documents", floor_share=0.4, ceiling_share=1.0),
    SectionRule(name="memory", floor_share=0.05, ceiling_share=0.2),
    SectionRule(name="turns", floor_share=0.3, ceiling_share=1.0),
    SectionRule(name="summary", floor_share=0.05, ceiling_share=0.3),
)


def check_rules(rules: Sequence[SectionRule]) -> None:
    """Refuse rules that name a section twice or not at all, or promise more than there is."""
    if sorted(rule.name for rule in rules) != ["documents", "memory", "summary", "turns"]:
        raise InvalidRequestError("the rules name documents, memory, summary and turns once each")
    if sum(rule.floor_share for rule in rules) > 1.0 + 1e-9:
        raise InvalidRequestError("the floors of all sections together are more than everything")


def allowance(
    rules: Sequence[SectionRule],
    position: int,
    *,
    shared_tokens: int,
    spent_tokens: int,
    wanted: Mapping[CuttableSection, int],
) -> int:
    """Return what the section at a position may take, after those before it have taken `spent_tokens`.

    What the floors of later sections promise them is left to them, as far as they want it.
    """
    rule = rules[position]
    promised = sum(
        min(wanted[later.name], int(shared_tokens * later.floor_share)) for later in rules[position + 1 :]
    )
    free = shared_tokens - spent_tokens - promised
    return max(0, min(free, int(shared_tokens * rule.ceiling_share)))
