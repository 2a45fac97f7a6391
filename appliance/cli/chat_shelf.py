"""The commands of `appliance chat` about stored chats and facts, as the terminal interface has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.cli.chat_session import ChatSession
from appliance.core.errors import InvalidRequestError

if TYPE_CHECKING:
    from appliance.cli.stored_chat import StoredChat
    from appliance.memory.turns import Chat
    from tui.in_process.memory import MemoryOfUser

_LISTED = 20


@dataclass(frozen=True, slots=True)
class StoreCommand:
    """How a command is written and what it does."""

    usage: str
    summary: str
    run: Callable[[ChatSession, StoredChat, str], Awaitable[str]]


async def run_store_command(session: ChatSession, stored: StoredChat | None, name: str, argument: str) -> str:
    """Run one of `STORE_COMMANDS` and return what to show.

    Raises:
        InvalidRequestError: nothing is kept of this conversation, or the command cannot be done.
    """
    if stored is None:
        raise InvalidRequestError(
            f"{name} needs the stored chats, and --no-store keeps this conversation in memory only"
        )
    return await STORE_COMMANDS[name].run(session, stored, argument)


async def _chats(_session: ChatSession, stored: StoredChat, words: str) -> str:
    from appliance.cli.chats import chat_row, hit_row

    if words:
        return "\n".join(map(hit_row, stored.conversations.search(words, limit=_LISTED))) or "nothing found"
    chats = stored.conversations.chats.list_chats(limit=_LISTED)
    return "\n".join(map(chat_row, chats)) or "no chats yet"


async def _title(_session: ChatSession, stored: StoredChat, title: str) -> str:
    if not title:
        return _begun(stored).title
    return f"this chat is called {stored.conversations.chats.rename(_begun(stored).id, title).title}"


async def _pin(_session: ChatSession, stored: StoredChat, _argument: str) -> str:
    chats = stored.conversations.chats
    now = chats.get(_begun(stored).id)
    return "pinned" if chats.pin(now.id, is_pinned=not now.is_pinned).is_pinned else "no longer pinned"


async def _archive(session: ChatSession, stored: StoredChat, _argument: str) -> str:
    chat = stored.conversations.chats.archive(_begun(stored).id)
    _leave(session, stored)
    return f"archived: {chat.title}; a new conversation begins"


async def _delete(session: ChatSession, stored: StoredChat, _argument: str) -> str:
    chat = stored.conversations.chats.delete(_begun(stored).id)
    _leave(session, stored)
    return f"deleted: {chat.title}; /undo brings it back to `appliance chats`. A new conversation begins"


async def _undo(_session: ChatSession, stored: StoredChat, _argument: str) -> str:
    chat = stored.conversations.chats.last_deleted()
    if chat is None:
        raise InvalidRequestError("the trash is empty")
    return f"brought back: {stored.conversations.chats.restore(chat.id).title}"


async def _remember(session: ChatSession, stored: StoredChat, text: str) -> str:
    memory = _memory_of(session, stored)
    if memory.mode == "off":
        raise InvalidRequestError("facts are switched off", hint="set `facts` to ask or save")
    if text:
        saved = await memory.add(text)
        merged = f" in place of “{saved.replaced_text}”" if saved.replaced_text else ""
        return f"remembered{merged}: {saved.fact.text}"
    proposed = await memory.propose(_begun(stored).id)
    if not proposed:
        return "nothing was found that is worth remembering"
    what = "remembered" if proposed[0].state == "confirmed" else "`appliance facts confirm` takes"
    return "\n".join([f"{what}:", *(f"{fact.id[:8]}  {fact.text}" for fact in proposed)])


async def _memory(session: ChatSession, stored: StoredChat, _argument: str) -> str:
    memory = _memory_of(session, stored)
    facts = [*await memory.facts("proposed"), *await memory.facts("confirmed")]
    lines = [f"{fact.id[:8]}  {fact.state:<9}  {fact.text}" for fact in facts]
    return "\n".join(lines) or "nothing is remembered"


def _memory_of(session: ChatSession, stored: StoredChat) -> MemoryOfUser:
    from appliance.memory.chat_prompt import AnswerChoice
    from tui.in_process.memory import MemoryOfUser

    choice = AnswerChoice(model=session.model, sampling=session.sampling)
    return MemoryOfUser(
        stored.facts, stored.conversations, lambda: stored.gateway, choice, mode=stored.fact_mode
    )


def _begun(stored: StoredChat) -> Chat:
    if stored.chat is None:
        raise InvalidRequestError("there is no chat yet", hint="ask something first")
    return stored.chat


def _leave(session: ChatSession, stored: StoredChat) -> None:
    session.clear()
    stored.leave()


STORE_COMMANDS: dict[str, StoreCommand] = {
    "/chats": StoreCommand("/chats [WORDS]", "list chats, or search them all", _chats),
    "/remember": StoreCommand(
        "/remember [TEXT]", "keep a fact for later chats, or find some here", _remember
    ),
    "/memory": StoreCommand("/memory", "what is remembered; `appliance facts` changes it", _memory),
    "/title": StoreCommand("/title [TEXT]", "show or change the name of this chat", _title),
    "/pin": StoreCommand("/pin", "keep this chat at the top, or let it go", _pin),
    "/archive": StoreCommand("/archive", "put this chat out of sight", _archive),
    "/delete": StoreCommand("/delete", "move this chat to the trash", _delete),
    "/undo": StoreCommand("/undo", "bring back the chat deleted last", _undo),
}
