"""Asks before something is forgotten for good, and shows the receipt of what was searched afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.core.errors import ApplianceError, InvalidRequestError
from appliance.core.forgetting import ForgetChat, ForgetDocument, ForgetSubject, ForgetTarget
from appliance.memory.turns import Chat
from tui.clean import shown_line
from tui.counting import counted_things
from tui.rows import Forgotten
from tui.screens.dialogs import Confirm
from tui.screens.text_page import TextPage

if TYPE_CHECKING:
    from tui.screens.chat import ChatScreen

_GROUP = "forget"


class ForgetAction:
    """Forgets the chat that is shown, a document, or all that mentions some words."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen

    async def ask(self, argument: str, chat: Chat | None) -> None:
        """Say what would go, and let the user decide.

        Raises:
            ApplianceError: there is no such thing, or it cannot be counted.
        """
        if not self._screen.is_free():
            return
        target, what = await self._target(argument, chat)
        counts = await self._screen.session.forgetting.preview(target)
        found = (
            ", ".join(counted_things(count, name) for name, count in sorted(counts.items()))
            or "nothing in chats"
        )
        more = "" if isinstance(target, ForgetChat) else "; documents"
        question = (
            f"Forget {what} for good? There is no undo.\n"
            f"This removes: {found}{more}; saved prefixes and backups too."
        )

        def decide(is_sure: bool | None) -> None:
            if is_sure:
                self._forget(target)

        await self._screen.app.push_screen(Confirm(question), decide)

    def _forget(self, target: ForgetTarget) -> None:
        self._screen.notify_plain("forgetting, then searching every store for what was removed…")
        self._screen.say_phase("forgetting")

        async def show(forgotten: Forgotten) -> None:
            self._screen.say_phase("")
            await self._leave(target)
            title = "Forgotten" if forgotten.is_clean else "NOT forgotten: something remains"
            await self._screen.app.push_screen(TextPage(title, forgotten.receipt))

        def fail(error: ApplianceError) -> None:
            self._screen.say_phase("")
            self._screen.tell(error)

        forgetting = self._screen.session.forgetting.forget(target)
        self._screen.fetch(forgetting, show, group=_GROUP, on_error=fail)

    async def _leave(self, target: ForgetTarget) -> None:
        screen = self._screen
        screen.prompt.set_history(screen.session.read_history())
        if isinstance(target, ForgetChat):
            screen.chat = None
            await screen.action_new_chat()
        elif screen.chat is not None:
            await screen.show_turns(await screen.session.chats.branch(screen.chat.id))
        await screen.refresh_sidebar()

    async def _target(self, argument: str, chat: Chat | None) -> tuple[ForgetTarget, str]:
        if argument.startswith("@"):
            return await self._document(argument[1:].strip())
        if argument:
            words = argument.strip("\"“”'")
            return ForgetSubject(phrase=words), f"everything that mentions “{shown_line(words, 60)}”"
        if chat is None:
            raise InvalidRequestError(
                "there is no chat yet", hint="/forget @NAME forgets a document, /forget WORDS a subject"
            )
        return ForgetChat(chat_id=chat.id), f"the chat “{shown_line(chat.title, 60)}”"

    async def _document(self, name: str) -> tuple[ForgetTarget, str]:
        named = [one for one in await self._screen.session.library.names() if one.kind == "document"]
        meant = [one for one in named if one.name == name.strip('"')]
        if len(meant) != 1:
            problem = (
                f"no document is named {name!r}"
                if not meant
                else f"{len(meant)} documents are named {name!r}"
            )
            raise InvalidRequestError(problem, hint="F3 lists documents; d there forgets the marked one")
        return ForgetDocument(
            document_id=meant[0].document_id
        ), f"the document {shown_line(meant[0].name, 60)}"
