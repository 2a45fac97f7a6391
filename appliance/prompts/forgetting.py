"""Forgets the outcomes of a user's experiments together with all else of that user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from appliance.core.forgetting import ForgetProbe, ForgetReport, ForgetTarget
from appliance.prompts.outcomes import OUTCOMES_FILE, Outcomes


class ForgettableOutcomes:
    """The outcomes as part of forgetting everything of an owner. One chat or document has none of its own, and
    users stand in the file by no name, so there is nothing to search for.
    """

    name = "outcomes of experiments"

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes

    @classmethod
    def below(cls, folder: Path) -> Self | None:
        """Open the outcomes that are kept in a folder."""
        path = folder / OUTCOMES_FILE
        return cls(Outcomes(path)) if path.exists() else None

    def close(self) -> None:
        """Close the file."""
        self._outcomes.close()

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove every outcome of the target's owner."""
        count = self._outcomes.forget_user(target.owner)
        return ForgetReport(store=self.name, removed={"outcomes": count} if count else {})

    def probe(self, needles: Sequence[str]) -> ForgetProbe:  # noqa: ARG002
        """Find nothing: the file holds no texts."""
        return ForgetProbe(store=self.name, checked=())
