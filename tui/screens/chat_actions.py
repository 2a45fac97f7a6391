"""What a user can do with a chat and its turns, by command or by key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from appliance.core.errors import ApplianceError, InvalidRequestError
from appliance.memory.turns import Chat, Turn
from tui.commands import parse_command
from tui.files import write_new
from tui.receipt_text import receipt_lines
from tui.screens.dialogs import Pick
from tui.screens.forgetting import ForgetAction
from tui.screens.places import Place
from tui.screens.remembering import Remembering
from tui.screens.text_page import TextPage
from tui.widgets.turn import TurnView

if TYPE_CHECKING:
    from tui.screens.chat import ChatScreen

_PLACES: dict[str, Place] = {
    "/help": "help",
    "/models": "models",
    "/library": "library",
    "/memory": "memory",
    "/extract": "extract",
    "/bench": "bench",
    "/settings": "settings",
    "/log": "log",
}
_SAMPLING_NAMES = ("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed")


class ChatActions:
    """Acts on the chat a screen shows. Failures are told to the user."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._remembering = Remembering(screen)
        self._forgetting = ForgetAction(screen)

    def asked(self) -> None:
        """Note that the user asked something."""
        self._remembering.asked()

    def left(self, chat: Chat | None) -> None:
        """Note that the user leaves a chat."""
        self._remembering.left(chat)

    async def command(self, line: str) -> None:
        """Run a slash command."""
        try:
            name, argument = parse_command(line)
            await self._run(name, argument)
        except ApplianceError as exc:
            self._screen.tell(exc)

    async def with_turn(self, turn: Turn, action: str) -> None:
        """Do what a key on a turn asks for."""
        try:
            await self._with_turn(turn, action)
        except ApplianceError as exc:
            self._screen.tell(exc)

    async def receipt(self, turn: Turn | None) -> None:
        """Show how an answer was made."""
        if turn is None:
            self._screen.notify_plain("No answer yet, so there is no receipt")
            return
        try:
            view = await self._screen.session.chats.receipt(turn.id)
        except ApplianceError as exc:
            self._screen.tell(exc)
            return
        await self._screen.app.push_screen(TextPage("Receipt", "\n".join(receipt_lines(turn, view))))

    async def pick_history(self) -> None:
        """Choose from what was asked before."""
        texts = list(reversed(self._screen.session.read_history())) if self._screen.is_open else []
        if not texts:
            self._screen.notify_plain("Nothing was asked before")
            return

        def take(choice: int | None) -> None:
            if choice is not None:
                self._screen.prompt.write(texts[choice])

        await self._screen.app.push_screen(Pick("What you asked before", texts), take)

    async def _run(self, name: str, argument: str) -> None:
        screen = self._screen
        if name in _PLACES:
            await screen.ui.action_show(_PLACES[name])
            return
        match name:
            case "/new":
                await screen.action_new_chat()
            case "/edit" | "/retry" | "/continue" | "/branch":
                await self._on_last(name, argument)
            case "/copy":
                await self._copy(argument)
            case "/stats":
                await self.receipt(screen.last_answer)
            case "/undo":
                await self._undo()
            case "/exit":
                screen.app.exit()
            case "/ask" | "/remember" | "/forget" | "/chats" | "/model" | "/think" | "/set" | "/theme":
                await self._on_program(name, argument)
            case _:
                await self._on_chat(name, argument)

    async def _on_program(self, name: str, argument: str) -> None:
        ui = self._screen.ui
        match name:
            case "/ask":
                await self._ask_documents(argument)
            case "/remember":
                await self._remembering.remember(argument, self._screen.chat)
            case "/forget":
                await self._forgetting.ask(argument, self._screen.chat)
            case "/chats":
                await ui.show_chats(argument)
            case "/model":
                await self._model(argument)
            case "/think":
                self._toggle_thinking()
            case "/set":
                self._set(argument)
            case _:
                ui.switch_theme(argument)

    async def _ask_documents(self, question: str) -> None:
        if not question:
            raise InvalidRequestError("/ask needs a question", hint="/ask when does the lease end?")
        if self._screen.is_free():
            await self._screen.send(question, asks_documents=True)

    async def _model(self, name: str) -> None:
        if not name:
            self._screen.notify_plain(f"{self._screen.session.model} answers")
            return
        await self._screen.ui.use_model(name)

    async def _on_last(self, name: str, argument: str) -> None:
        turns = self._screen.transcript.turns
        question = next((turn for turn in reversed(turns) if turn.role == "user"), None)
        answer = turns[-1] if turns and turns[-1].role == "assistant" else None
        match name:
            case "/edit":
                await self._with_turn(_needed(question), "edit")
            case "/retry":
                await self._with_turn(_needed(answer or question), "regenerate")
            case "/continue":
                await self._with_turn(_needed(answer), "continue")
            case _:
                step = "previous_branch" if argument.startswith("p") else "next_branch"
                await self._with_turn(_needed(answer), step)

    async def _with_turn(self, turn: Turn, action: str) -> None:
        chats = self._screen.session.chats
        match action:
            case "copy":
                self._screen.copy(turn.text, "turn")
            case "copy_code":
                await self._copy_code(turn)
            case "sources":
                await self._sources(turn)
            case "receipt":
                await self.receipt(turn)
            case "previous_branch" | "next_branch":
                await self._switch_branch(turn, 1 if action == "next_branch" else -1)
            case _ if self._screen.is_answering:
                raise InvalidRequestError("an answer is being written", hint="Esc stops it")
            case "edit":
                self._edit(turn)
            case "regenerate":
                self._screen.begin(chats.regenerate(turn.id))
            case "continue":
                self._screen.begin(chats.continue_answer(turn.id))
            case _:
                raise AssertionError(action)

    async def _copy_code(self, turn: Turn) -> None:
        blocks = _codes(turn.text)
        if len(blocks) == 1:
            self._screen.copy(blocks[0], "code")
            return

        def take(choice: int | None) -> None:
            if choice is not None:
                self._screen.copy(blocks[choice], "code")

        await self._screen.app.push_screen(Pick("Copy which code?", blocks), take)

    async def _sources(self, turn: Turn) -> None:
        from tui.screens.answer import AnswerScreen

        sources = await self._screen.session.chats.sources(turn.id) if turn.role == "assistant" else None
        if sources is None:
            raise InvalidRequestError(
                "this is no answer from documents", hint="/ask, or a document named with @, asks them"
            )
        asked = next((one for one in self._screen.transcript.turns if one.id == turn.parent_id), None)
        await self._screen.app.push_screen(AnswerScreen(asked.text if asked else "", turn.text, sources))

    def _edit(self, turn: Turn) -> None:
        if turn.role != "user":
            raise InvalidRequestError("only a question can be edited", hint="r answers again")
        self._screen.editing = turn
        self._screen.prompt.write(turn.text)
        self._screen.prompt.focus()

    async def _switch_branch(self, turn: Turn, step: int) -> None:
        if self._screen.is_answering:
            raise InvalidRequestError("an answer is being written", hint="Esc stops it")
        branches = await self._screen.session.chats.branches_at(turn.id)
        if len(branches.turn_ids) < 2:
            raise InvalidRequestError(
                "there is no other branch here", hint="r answers again and e edits a question: both branch"
            )
        other = branches.turn_ids[(branches.shown + step) % len(branches.turn_ids)]
        await self._screen.show_turns(await self._screen.session.chats.show_branch_of(other))
        if view := self._screen.transcript.view_of(other):
            view.focus()

    async def _copy(self, what: str) -> None:
        answer = _needed(self._screen.last_answer)
        match what:
            case "":
                self._screen.copy(answer.text, "answer")
            case "code":
                self._screen.copy(_codes(answer.text)[-1], "code")
            case "chat":
                self._screen.copy(await self._screen.session.chats.export(self._chat().id), "chat")
            case "file":
                self._screen.notify_plain(self._screen.ui.copy_to_file(answer.text))
            case _:
                raise InvalidRequestError(f"/copy takes code, chat or file, not {what!r}")

    def _toggle_thinking(self) -> None:
        for view in self._screen.query(TurnView):
            if view.turn.reasoning:
                view.action_toggle_reasoning()

    def _set(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        session = self._screen.session
        if not value:
            names = [name] if name else _SAMPLING_NAMES
            listed = [f"{each} {getattr(session.sampling, each, 'is no setting')}" for each in names]
            self._screen.notify_plain("\n".join(listed))
            return
        self._screen.notify_plain(session.set_sampling(name, value.strip()))

    async def _undo(self) -> None:
        chat = await self._screen.session.chats.undo_delete()
        if chat is None:
            raise InvalidRequestError("the trash is empty")
        self._screen.notify_plain(f"brought back: {chat.title}")
        await self._screen.refresh_sidebar()
        await self._screen.open_chat(chat.id)

    async def _on_chat(self, name: str, argument: str) -> None:
        chat, chats, screen = self._chat(), self._screen.session.chats, self._screen
        match name:
            case "/title":
                screen.chat = await chats.rename(chat.id, argument)
            case "/pin":
                screen.chat = await chats.pin(chat.id, is_pinned=not chat.is_pinned)
                screen.notify_plain("pinned" if screen.chat.is_pinned else "no longer pinned")
            case "/archive":
                await chats.archive(chat.id, is_archived=True)
                await screen.action_new_chat()
                screen.notify_plain("archived · the list of chats shows archived ones with Tab")
            case "/delete":
                await self._delete(chat)
            case "/save":
                await self._save(chat, argument)
            case "/system":
                await self._system(chat, argument)
            case _:
                raise AssertionError(name)
        screen.show_title()
        await screen.refresh_sidebar()

    async def _delete(self, chat: Chat) -> None:
        if self._screen.is_answering:
            raise InvalidRequestError("an answer is being written", hint="Esc stops it")
        await self._screen.session.chats.delete(chat.id)
        await self._screen.action_new_chat()
        self._screen.notify_plain(f"deleted: {chat.title}\n/undo brings it back")

    async def _save(self, chat: Chat, file: str) -> None:
        if not file:
            raise InvalidRequestError("/save needs a file name", hint="/save talk.md")
        text = await self._screen.session.chats.export(chat.id)
        path = await asyncio.to_thread(write_new, file, text)
        self._screen.notify_plain(f"saved to {path}")

    async def _system(self, chat: Chat, text: str) -> None:
        if not text:
            self._screen.notify_plain(chat.system_text or "this chat has no instructions")
            return
        wanted = "" if text.lower() == "none" else text
        self._screen.chat = await self._screen.session.chats.set_system_text(chat.id, wanted)
        self._screen.notify_plain("the instructions hold from the next answer on" if wanted else "removed")

    def _chat(self) -> Chat:
        if self._screen.chat is None:
            raise InvalidRequestError("there is no chat yet", hint="ask something first")
        return self._screen.chat


def _needed(turn: Turn | None) -> Turn:
    if turn is None:
        raise InvalidRequestError("there is no such turn yet", hint="ask something first")
    return turn


def _codes(text: str) -> list[str]:
    # The parser takes long to import, and the first paint does without it.
    from tui.widgets.answer_parts import code_blocks

    found = code_blocks(text)
    if not found:
        raise InvalidRequestError("there is no code block in this turn")
    return found
