"""The receipt of a prompt: tokens by section, what was cut and why; the sections add up to the total."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

from appliance.core.usage import Usage

SectionName = Literal["system", "tools", "memory", "summary", "documents", "turns", "question", "answer"]
SECTION_ORDER: tuple[SectionName, ...] = (
    "system",
    "tools",
    "memory",
    "summary",
    "documents",
    "turns",
    "question",
    "answer",
)

Outcome = Literal["kept", "shortened", "cut"]
EntryReason = Literal[
    "never_cut",
    "fits",
    "over_budget",
    "older_than_kept",
    "middle_left_out",
]

REASONS: dict[EntryReason, str] = {
    "never_cut": "is never cut",
    "fits": "fits",
    "over_budget": "does not fit what its section may take",
    "older_than_kept": "is older than a turn that does not fit",
    "middle_left_out": "is too long; its middle is left out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptEntry:
    """One text of a section. `tokens` is what it takes, `cut_tokens` what was left out of it."""

    label: str
    outcome: Outcome
    tokens: int
    cut_tokens: int
    reason: EntryReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReceipt:
    """One section. `tokens` is exact, delimiters included; entries are counted each by itself. `answer` is what of
    the answer was written already where the prompt ends inside it.

    `limit_tokens` is what the section was allowed; `None` is no limit: it is never cut.
    """

    name: SectionName
    tokens: int
    limit_tokens: int | None
    entries: tuple[ReceiptEntry, ...]

    @property
    def cut_tokens(self) -> int:
        """Tokens that were left out."""
        return sum(entry.cut_tokens for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReceipt:
    """What a prompt holds, to the token.

    `total_tokens` is `template_tokens` plus the tokens of all sections, and what the engine prefills.
    `cached_tokens` is the part it did not have to compute again; `None` before the request was made.
    """

    model: str
    context_window: int
    reserved_tokens: int
    margin_tokens: int
    total_tokens: int
    template_tokens: int
    sections: tuple[SectionReceipt, ...]
    cached_tokens: int | None = None

    @property
    def available_tokens(self) -> int:
        """What the prompt may take: the window without the reserve for the answer and the margin."""
        return self.context_window - self.reserved_tokens - self.margin_tokens

    @property
    def is_whole(self) -> bool:
        """Whether nothing was cut."""
        return not any(section.cut_tokens for section in self.sections)

    def section(self, name: SectionName) -> SectionReceipt:
        """Return one section."""
        return next(section for section in self.sections if section.name == name)

    def to_json(self) -> dict[str, object]:
        """Return the receipt as an object for JSON."""
        return {**asdict(self), "available_tokens": self.available_tokens, "is_whole": self.is_whole}


def with_usage(receipt: ContextReceipt, usage: Usage) -> ContextReceipt:
    """Return the receipt with what the engine reported of the cache."""
    return replace(receipt, cached_tokens=usage.cached_tokens)
