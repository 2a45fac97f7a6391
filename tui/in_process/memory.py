"""Long-term facts of the terminal interface, proposed by the model that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from appliance.config.settings import FactMode
from appliance.gateway import Gateway
from appliance.memory.chat_prompt import AnswerChoice
from appliance.memory.conversations import Conversations
from appliance.memory.fact_proposals import FactPhrases
from appliance.memory.facts import ConfirmedFact, Fact, Facts, FactState, propose_facts


class MemoryOfUser:
    """`MemoryPort` over the facts of one store."""

    def __init__(
        self,
        facts: Facts,
        conversations: Conversations,
        gateway: Callable[[], Gateway],
        choice: AnswerChoice,
        *,
        mode: FactMode,
    ) -> None:
        self._facts = facts
        self._conversations = conversations
        self._gateway = gateway
        self._choice = choice
        self._mode = mode

    @property
    def mode(self) -> FactMode:
        """Whether facts are kept, and when."""
        return self._mode

    async def facts(self, state: FactState) -> list[Fact]:
        """Return the facts that hold now, or the proposals."""
        return await asyncio.to_thread(self._facts.list_facts, state)

    async def add(self, text: str) -> ConfirmedFact:
        """Save what the user states outright."""
        return await asyncio.to_thread(self._facts.add, text)

    async def confirm(self, fact_id: str) -> ConfirmedFact:
        """Save a proposal."""
        return await asyncio.to_thread(self._facts.confirm, fact_id)

    async def correct(self, fact_id: str, text: str) -> Fact:
        """Change the words of a fact."""
        return await asyncio.to_thread(self._facts.correct, fact_id, text)

    async def delete(self, fact_id: str) -> None:
        """Remove a fact or a proposal."""
        await asyncio.to_thread(self._facts.delete, fact_id)

    async def propose(self, chat_id: str) -> list[Fact]:
        """Let the model point out what to remember of a chat; save it at once where the setting says so."""
        turns = await asyncio.to_thread(self._conversations.turns.shown_branch, chat_id)
        extract = FactPhrases(self._gateway(), model=self._choice.model)
        proposed = await propose_facts(self._facts, turns, extract)
        if self._mode == "save":
            return [(await self.confirm(fact.id)).fact for fact in proposed]
        return proposed
