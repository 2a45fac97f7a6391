"""Proposes facts after a conversation, beside whatever the user does next, and never in the way of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.core.errors import InvalidRequestError
from appliance.memory.turns import Chat

if TYPE_CHECKING:
    from appliance.memory.facts import Fact
    from tui.screens.chat import ChatScreen

_GROUP = "facts"


class Remembering:
    """Asks for proposals when a chat is left in which something was asked."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._is_anything_new = False
        self._waiting: list[str] = []

    def asked(self) -> None:
        """A question was asked: the model is needed for it, so that proposals wait."""
        self._is_anything_new = True
        self._screen.workers.cancel_group(self._screen, _GROUP)

    def left(self, chat: Chat | None) -> None:
        """The user leaves a chat."""
        if chat is None or not self._is_anything_new or self._screen.session.memory.mode == "off":
            return
        self._is_anything_new = False
        if chat.id not in self._waiting:
            self._waiting.append(chat.id)
        self._propose_next()

    async def remember(self, text: str, chat: Chat | None) -> None:
        """Save what the user states outright; without a text, propose facts of this chat now.

        Raises:
            ApplianceError: there is nothing to remember, or it cannot be saved.
        """
        memory = self._screen.session.memory
        if memory.mode == "off":
            raise InvalidRequestError("facts are switched off", hint="set `facts` to ask or save")
        if text:
            saved = await memory.add(text)
            merged = f" in place of “{saved.replaced_text}”" if saved.replaced_text else ""
            self._screen.notify_plain(f"remembered{merged}: {saved.fact.text}\nF7 shows and changes it")
            return
        if chat is None:
            raise InvalidRequestError("there is no chat yet", hint="/remember TEXT saves a text")
        self._screen.notify_plain("looking for what is worth remembering…")
        self._screen.fetch(memory.propose(chat.id), self._tell, group=_GROUP)

    def _propose_next(self) -> None:
        if self._waiting:
            chat_id = self._waiting[0]
            self._screen.fetch(
                self._screen.session.memory.propose(chat_id),
                self._take,
                group=_GROUP,
                on_error=lambda _: self._drop(chat_id),
            )

    def _take(self, proposed: list[Fact]) -> None:
        del self._waiting[:1]
        if proposed:
            self._tell(proposed)
        self._propose_next()

    def _drop(self, chat_id: str) -> None:
        """Nobody asked for proposals, so a model that cannot make them is no news."""
        self._waiting = [one for one in self._waiting if one != chat_id]
        self._propose_next()

    def _tell(self, proposed: list[Fact]) -> None:
        if not proposed:
            self._screen.notify_plain("nothing was found that is worth remembering")
            return
        is_saved = proposed[0].state == "confirmed"
        what = "remembered" if is_saved else "to remember, once you confirm it"
        listed = "\n".join(f"“{fact.text}”" for fact in proposed)
        self._screen.notify_plain(f"{what}:\n{listed}\nF7 {'changes' if is_saved else 'confirms'}")
