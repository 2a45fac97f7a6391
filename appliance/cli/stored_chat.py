"""The conversation of `appliance chat` on disk: each word is stored before it is shown, and a long chat folds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from appliance.cli.answering import ShownAnswer, interrupted, swallow_cancellation
from appliance.cli.chat_session import ChatSession as Talk
from appliance.cli.screen import AnswerScreen
from appliance.config.settings import FactMode
from appliance.core.answer import AnswerInProgress
from appliance.core.clock import SystemClock
from appliance.core.errors import InvalidRequestError
from appliance.core.measured import Measured
from appliance.gateway import Gateway
from appliance.memory.chat_prompt import AnswerChoice, ChatPrompt, RecallFacts, no_facts
from appliance.memory.conversations import Conversations
from appliance.memory.events import ChatEvent
from appliance.memory.fact_recall import FactRecall
from appliance.memory.facts import Facts
from appliance.memory.prompt import PreparePrompt
from appliance.memory.session import ChatSession
from appliance.memory.short_term import MemoryPolicy
from appliance.memory.turns import Chat


class StoredChat:
    """Asks in a chat of the store, which begins with the first question."""

    def __init__(
        self,
        conversations: Conversations,
        gateway: Gateway,
        *,
        memory: MemoryPolicy,
        facts: Facts,
        fact_mode: FactMode,
    ) -> None:
        self.conversations = conversations
        self.facts = facts
        self.fact_mode: FactMode = fact_mode
        self.gateway = gateway
        self._choice: AnswerChoice | None = None
        self._memory = memory
        self._recall: RecallFacts = no_facts if fact_mode == "off" else FactRecall(facts)
        self._session: ChatSession | None = None
        self._chat: Chat | None = None
        self._asked_id = ""
        self._answer_id = ""

    @property
    def chat(self) -> Chat | None:
        """The chat that is going on, once something was asked."""
        return self._chat

    def leave(self) -> None:
        """Begin another chat with the next question."""
        self._chat = None

    def receipt_json(self) -> str:
        """Return the receipt of the last answer; empty when there is none."""
        return self.conversations.turns.receipt_of(self._answer_id) if self._answer_id else ""

    async def answer(
        self, talk: Talk, question: str, screen: AnswerScreen, prepare: PreparePrompt | None = None
    ) -> ShownAnswer:
        """Ask and show. Cancelling this task is the interrupt: it returns what was written.

        Raises:
            ApplianceError: no answer could begin; the question is stored.
        """
        session = self._prepared(talk)
        chat = await self._chat_of(talk)
        return await self._shown(session.ask(chat.id, question, prepare), screen)

    async def answer_again(
        self, talk: Talk, screen: AnswerScreen, prepare: PreparePrompt | None = None
    ) -> ShownAnswer:
        """Answer the last question again, on a branch beside the old answer."""
        return await self._shown(self._prepared(talk).regenerate(self._asked_id, prepare), screen)

    async def answer_edited(
        self, talk: Talk, question: str, screen: AnswerScreen, prepare: PreparePrompt | None = None
    ) -> ShownAnswer:
        """Ask the last question in other words, on a branch beside the old one."""
        return await self._shown(self._prepared(talk).edit(self._asked_id, question, prepare), screen)

    async def continue_answer(self, talk: Talk, screen: AnswerScreen) -> ShownAnswer:
        """Go on with the last answer, inside it; what is shown is the rest of it."""
        if not self._answer_id:
            raise InvalidRequestError("there is no answer to continue yet")
        events = self._prepared(talk).continue_answer(self._answer_id)
        return await self._shown(events, screen, answer_id=self._answer_id)

    def _prepared(self, talk: Talk) -> ChatSession:
        if self._choice is None or self._session is None:
            self._choice = AnswerChoice(model=talk.model, sampling=talk.sampling, memory=self._memory)
            prompt = ChatPrompt(self.gateway, self.conversations, self._choice, recall=self._recall)
            self._session = ChatSession(self.conversations, self.gateway.stream, prompt)
        self._choice.model, self._choice.sampling = talk.model, talk.sampling
        return self._session

    async def _chat_of(self, talk: Talk) -> Chat:
        chats = self.conversations.chats
        if self._chat is None or not talk.has_turns:
            self._chat = await asyncio.to_thread(chats.create, system_text=talk.system)
        elif self._chat.system_text != talk.system:
            self._chat = await asyncio.to_thread(chats.set_system_text, self._chat.id, talk.system)
        return self._chat

    async def _shown(
        self, events: AsyncGenerator[ChatEvent, None], screen: AnswerScreen, *, answer_id: str = ""
    ) -> ShownAnswer:
        answer, measured = AnswerInProgress(), Measured(SystemClock())
        self._answer_id = answer_id
        try:
            async with aclosing(events) as arriving:
                async for event in arriving:
                    self._show(event, answer, measured, screen)
        except asyncio.CancelledError:
            swallow_cancellation()
            return interrupted(answer, measured)
        finally:
            screen.finish()
        return ShownAnswer(result=answer.result())

    def _show(
        self, event: ChatEvent, answer: AnswerInProgress, measured: Measured, screen: AnswerScreen
    ) -> None:
        match event.kind:
            case "turn_saved":
                self._asked_id = event.turn.id
            case "history_folding":
                screen.progress(f"folding {event.turns} earlier turns into a summary …")
            case "history_folded":
                screen.note(f"note: {event.text}")
            case "answer_begun" | "answer_saved":
                self._answer_id = event.turn.id
            case _:
                measured.note(event)
                answer.add(event)
                screen.show(event)
