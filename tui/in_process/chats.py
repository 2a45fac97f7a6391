"""Chats of the terminal interface: stored by `memory`, answered by the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from appliance.context.budget import ContextBudget
from appliance.context.builder import ContextBuilder
from appliance.context.counting import RequestCounter
from appliance.context.receipt import ContextReceipt
from appliance.core.messages import Conversation, SystemMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.gateway import Gateway
from appliance.memory.chats import Shelf
from appliance.memory.conversations import Conversations
from appliance.memory.markdown import export_markdown
from appliance.memory.prompt import PreparedPrompt, branch_messages
from appliance.memory.search import ChatHit
from appliance.memory.session import ChatEvent, ChatSession
from appliance.memory.turns import Branches, Chat, Turn
from tui.session import ReceiptView

_RESERVED_SHARE = 0.25
_MOST_RESERVED_TOKENS = 1024


@dataclass(slots=True, kw_only=True)
class AnswerChoice:
    """Which model answers and how tokens are chosen; the user changes it while the program runs."""

    model: str
    sampling: SamplingParams


class StoredChats:
    """`ChatPort` over one database and one gateway. Reads and writes happen in threads."""

    def __init__(self, conversations: Conversations, gateway: Gateway, choice: AnswerChoice) -> None:
        self._conversations = conversations
        self._gateway = gateway
        self._choice = choice
        self._counter = RequestCounter(gateway.count_tokens)
        self._session = ChatSession(conversations, gateway.stream, self._prepare)

    async def list_chats(self, shelf: Shelf = "current") -> list[Chat]:
        """Return the chats of a shelf, pinned ones first."""
        return await asyncio.to_thread(self._conversations.chats.list_chats, shelf, limit=1000)

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

    def ask(self, chat_id: str, text: str) -> AsyncGenerator[ChatEvent, None]:
        """Ask at the end of the branch that is shown."""
        return self._session.ask(chat_id, text)

    def edit(self, turn_id: str, text: str) -> AsyncGenerator[ChatEvent, None]:
        """Ask a question in other words, on a branch beside it."""
        return self._session.edit(turn_id, text)

    def regenerate(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Answer again, on a branch beside the old answer."""
        return self._session.regenerate(turn_id)

    def continue_answer(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]:
        """Go on with a stopped answer."""
        return self._session.continue_answer(turn_id)

    def cancel(self, chat_id: str) -> bool:
        """Stop the answer of a chat; what was written stays."""
        return self._session.cancel(chat_id)

    async def _prepare(self, chat: Chat, branch: Sequence[Turn]) -> PreparedPrompt:
        """Fit the branch into the window, counted by the model itself; what is cut is said."""
        model, sampling = self._choice.model, self._choice.sampling
        window = (await self._gateway.capabilities(model)).context_window
        system = (SystemMessage(text=chat.system_text),) if chat.system_text else ()
        request = GenerateRequest(
            conversation=Conversation((*system, *branch_messages(branch))),
            model=model,
            sampling=sampling,
            owner=self._conversations.owner,
        )
        reserved = min(sampling.max_tokens or _MOST_RESERVED_TOKENS, int(window * _RESERVED_SHARE))
        budget = ContextBudget(context_window=window, reserved_tokens=reserved)
        built = await ContextBuilder(self._counter, budget).build(request)
        return PreparedPrompt(
            request=built.request,
            receipt_json=json.dumps(built.receipt.to_json()),
            marker=_cut_marker(built.receipt),
        )


def _cut_marker(receipt: ContextReceipt) -> str:
    if receipt.is_whole:
        return ""
    cut = receipt.section("turns")
    count = sum(entry.outcome != "kept" for entry in cut.entries)
    return f"{count} earlier exchanges ({cut.cut_tokens:,} tokens) are not in the prompt: they do not fit"


def _sampling_line(sampling: SamplingParams) -> str:
    parts = [
        f"temperature {sampling.temperature:g}",
        f"top_p {sampling.top_p:g}",
        f"top_k {sampling.top_k}",
        f"min_p {sampling.min_p:g}",
        f"seed {sampling.seed}",
    ]
    return " · ".join(parts)
