"""Chats of the terminal interface: stored by `memory`, answered by the gateway or from documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from appliance.core.requests import SamplingParams
from appliance.gateway import Gateway
from appliance.memory.chat_prompt import AnswerChoice, ChatPrompt, RecallFacts, no_facts
from appliance.memory.chats import Shelf
from appliance.memory.conversations import Conversations
from appliance.memory.document_scope import DocumentScope, is_from_documents
from appliance.memory.events import ChatEvent
from appliance.memory.markdown import export_markdown
from appliance.memory.prompt import PreparedPrompt, PreparePrompt, ReportFolding
from appliance.memory.search import ChatHit
from appliance.memory.session import ChatSession
from appliance.memory.turns import Branches, Chat, Summary, Turn
from tui.in_process.sources import sourced_answer
from tui.rows import ReceiptView, SourcedAnswer
from tui.session import MOST_CHATS

DocumentPrompts = Callable[[DocumentScope], PreparePrompt]
"""Returns what prepares the prompt of a question to documents."""
ScopeOf = Callable[[str], DocumentScope]
"""Returns the documents that a question names with @. May block."""


class StoredChats:
    """`ChatPort` over one database and one gateway. Reads and writes happen in threads."""

    def __init__(
        self,
        conversations: Conversations,
        gateway: Gateway,
        choice: AnswerChoice,
        *,
        documents: DocumentPrompts,
        scope_of: ScopeOf,
        recall: RecallFacts = no_facts,
    ) -> None:
        self._conversations = conversations
        self._documents = documents
        self._scope_of = scope_of
        self._usual = ChatPrompt(gateway, conversations, choice, recall=recall)
        self._session = ChatSession(conversations, gateway.stream, self._usual)

    async def list_chats(self, shelf: Shelf = "current") -> list[Chat]:
        """Return the chats of a shelf, pinned ones first."""
        return await asyncio.to_thread(self._conversations.chats.list_chats, shelf, limit=MOST_CHATS)

    async def search(self, query: str) -> list[ChatHit]:
        """Find turns and titles."""
        return await asyncio.to_thread(self._conversations.search, query)

    async def create(self) -> Chat:
        """Start an empty chat."""
        return await asyncio.to_thread(self._conversations.chats.create)

    async def get(self, chat_id: str) -> Chat:
        """Return one chat."""
        return await asyncio.to_thread(self._conversations.chats.get, chat_id)

    async def branch(self, chat_id: str) -> list[Turn]:
        """Return the turns the chat shows."""
        return await asyncio.to_thread(self._conversations.turns.shown_branch, chat_id)

    async def rename(self, chat_id: str, title: str) -> Chat:
        """Give a chat another title."""
        return await asyncio.to_thread(self._conversations.chats.rename, chat_id, title)

    async def pin(self, chat_id: str, *, is_pinned: bool) -> Chat:
        """Keep a chat at the top, or let it go."""
        return await asyncio.to_thread(self._conversations.chats.pin, chat_id, is_pinned=is_pinned)

    async def archive(self, chat_id: str, *, is_archived: bool) -> Chat:
        """Put a chat out of sight, or bring it back."""
        return await asyncio.to_thread(self._conversations.chats.archive, chat_id, is_archived=is_archived)

    async def delete(self, chat_id: str) -> Chat:
        """Move a chat to the trash."""
        return await asyncio.to_thread(self._conversations.chats.delete, chat_id)

    async def undo_delete(self) -> Chat | None:
        """Bring back the chat that was deleted last."""
        chat = await asyncio.to_thread(self._conversations.chats.last_deleted)
        return await asyncio.to_thread(self._conversations.chats.restore, chat.id) if chat else None

    async def set_system_text(self, chat_id: str, text: str) -> Chat:
        """Set the instructions for the answers to come."""
        return await asyncio.to_thread(self._conversations.chats.set_system_text, chat_id, text)

    async def branches_at(self, turn_id: str) -> Branches:
        """Return the alternatives to a turn."""
        return await asyncio.to_thread(self._conversations.turns.branches_at, turn_id)

    async def show_branch_of(self, turn_id: str) -> list[Turn]:
        """Show the branch through a turn."""
        return await asyncio.to_thread(self._conversations.turns.show_branch_of, turn_id)

    async def export(self, chat_id: str) -> str:
        """Return the chat as Markdown."""
        return await asyncio.to_thread(export_markdown, self._conversations, chat_id)

    async def receipt(self, turn_id: str) -> ReceiptView:
        """Return how an answer was made."""
        turns = self._conversations.turns
        receipt_json = await asyncio.to_thread(turns.receipt_of, turn_id)
        sent = await asyncio.to_thread(turns.request_of, turn_id)
        if sent is None:
            return ReceiptView(receipt_json=receipt_json)
        return ReceiptView(
            receipt_json=receipt_json,
            messages=tuple((message.kind, message.text) for message in sent.messages),
            model=sent.model,
            sampling=_sampling_line(sent.sampling),
        )

    async def sources(self, turn_id: str) -> SourcedAnswer | None:
        """Return what an answer from documents stands on; None for any other."""
        receipt_json = await asyncio.to_thread(self._conversations.turns.receipt_of, turn_id)
        return sourced_answer(receipt_json)

    async def summaries(self, chat_id: str) -> list[Summary]:
        """Return the summaries that stand for older turns of a chat."""
        return await asyncio.to_thread(self._conversations.summaries.of_chat, chat_id)

    def ask(self, chat_id: str, text: str) -> AsyncGenerator[ChatEvent, None]:
        """Ask at the end of the branch that is shown."""
        return self._session.ask(chat_id, text)

    def ask_documents(self, chat_id: str, text: str, scope: DocumentScope) -> AsyncGenerator[ChatEvent, None]:
        """Put a question to documents at the end of the branch that is shown."""
        return self._session.ask(chat_id, text, prepare=self._documents(scope))

    def edit(self, turn_id: str, text: str) -> AsyncGenerator[ChatEvent, None]:
        """Ask a question in other words, on a branch beside it; one to documents stays one."""
        return self._session.edit(turn_id, text, prepare=self._as_before(turn_id))

    def regenerate(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Answer again, on a branch beside the old answer, from documents where that was."""
        return self._session.regenerate(turn_id, prepare=self._as_before(turn_id))

    def continue_answer(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Go on with an answer that was cut off, inside it."""
        return self._session.continue_answer(turn_id)

    def cancel(self, chat_id: str) -> bool:
        """Stop the answer of a chat; what was written stays."""
        return self._session.cancel(chat_id)

    def _as_before(self, turn_id: str) -> PreparePrompt:
        """Prepare as the answer to this turn, or this answer, was prepared."""

        async def prepare(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
            if not await asyncio.to_thread(self._was_from_documents, turn_id):
                return await self._usual(chat, branch, on_folding)
            scope = await asyncio.to_thread(self._scope_of, branch[-1].text)
            return await self._documents(scope)(chat, branch, on_folding)

        return prepare

    def _was_from_documents(self, turn_id: str) -> bool:
        turns = self._conversations.turns
        turn = turns.get(turn_id)
        answers = [turn] if turn.role == "assistant" else []
        if turn.role == "user":
            answers = [one for one in turns.all_turns(turn.chat_id) if one.parent_id == turn_id]
        sent = [turns.request_of(one.id) for one in answers if one.role == "assistant"]
        return any(one is not None and is_from_documents(one) for one in sent)


def _sampling_line(sampling: SamplingParams) -> str:
    parts = [
        f"temperature {sampling.temperature:g}",
        f"top_p {sampling.top_p:g}",
        f"top_k {sampling.top_k}",
        f"min_p {sampling.min_p:g}",
        f"seed {sampling.seed}",
    ]
    return " · ".join(parts)
