"""Chooses the confirmed facts a conversation is answered with; the choice stays the same for the whole chat."""

from __future__ import annotations

from collections.abc import Sequence

from appliance.memory.facts import Facts
from appliance.memory.turns import Turn

MOST_FACTS = 24


class FactRecall:
    """A `RecallFacts`: every confirmed fact, or of many those nearest to the first question.

    Facts stand before everything said; were they chosen anew for each question, no prompt would share its
    beginning with the one before.
    """

    def __init__(self, facts: Facts, *, most: int = MOST_FACTS) -> None:
        self._facts = facts
        self._most = most

    def __call__(self, branch: Sequence[Turn]) -> list[str]:
        """Return their texts, oldest first.

        Raises:
            ApplianceError: there are many facts and the embedder cannot be used.
        """
        confirmed = self._facts.list_facts()
        if len(confirmed) <= self._most:
            return [fact.text for fact in confirmed]
        first = next((turn.text for turn in branch if turn.role == "user"), "")
        near = {fact.id for fact in self._facts.relevant(first, limit=self._most)}
        return [fact.text for fact in confirmed if fact.id in near]
