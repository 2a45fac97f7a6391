"""Which texts of the sections that can be cut a prompt keeps: whole texts, by the section's own policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.context.budget import CuttableSection
from appliance.context.receipt import EntryReason, Outcome, ReceiptEntry


@dataclass(slots=True)
class Candidate:
    """A text that may be kept. `text` replaces the original where it was shortened."""

    label: str
    tokens: int
    outcome: Outcome = "kept"
    reason: EntryReason = "fits"
    cut_tokens: int = 0
    text: str = ""

    @property
    def is_in_prompt(self) -> bool:
        """Whether any of it is in the prompt."""
        return self.outcome != "cut"

    def cut(self, reason: EntryReason) -> None:
        """Leave it out."""
        self.outcome, self.reason = "cut", reason
        self.cut_tokens += self.tokens
        self.tokens = 0

    def shorten(self, text: str, tokens: int) -> None:
        """Keep a shorter version."""
        self.outcome, self.reason, self.text = "shortened", "middle_left_out", text
        self.cut_tokens, self.tokens = self.tokens - tokens, tokens

    def entry(self) -> ReceiptEntry:
        """Return its line of the receipt."""
        return ReceiptEntry(
            label=self.label,
            outcome=self.outcome,
            tokens=self.tokens,
            cut_tokens=self.cut_tokens,
            reason=self.reason,
        )


@dataclass(slots=True)
class SectionChoice:
    """The texts of one section. `frame_tokens` are its own delimiters, taken when any text is kept."""

    name: CuttableSection
    candidates: list[Candidate]
    frame_tokens: int = 0
    limit_tokens: int = 0

    @property
    def wanted_tokens(self) -> int:
        """What everything together would take."""
        return sum(one.tokens for one in self.candidates) + (self.frame_tokens if self.candidates else 0)

    @property
    def used_tokens(self) -> int:
        """What the kept texts take."""
        kept = [one.tokens for one in self.candidates if one.is_in_prompt]
        return sum(kept) + (self.frame_tokens if kept else 0)

    def choose(self, limit_tokens: int) -> None:
        """Keep what fits: of turns the newest in a row, of everything else the first that fit."""
        self.limit_tokens = limit_tokens
        room = limit_tokens - self.frame_tokens
        if self.name == "turns":
            _keep_newest(self.candidates, room)
        else:
            _keep_first(self.candidates, room)

    def drop_one(self) -> bool:
        """Cut the text that is missed least; return whether there was one."""
        order = self.candidates if self.name == "turns" else list(reversed(self.candidates))
        last = next((one for one in order if one.is_in_prompt), None)
        if last is None:
            return False
        last.cut("over_budget")
        return True


def _keep_first(candidates: Sequence[Candidate], room: int) -> None:
    for candidate in candidates:
        if candidate.tokens > room:
            candidate.cut("over_budget")
        else:
            room -= candidate.tokens


def _keep_newest(candidates: Sequence[Candidate], room: int) -> None:
    is_open = True
    for candidate in reversed(candidates):
        if is_open and candidate.tokens <= room:
            room -= candidate.tokens
            continue
        candidate.cut("over_budget" if is_open else "older_than_kept")
        is_open = False
