"""Every chat: open, search, rename, pin, archive, delete and undo."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Footer, Input, OptionList
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError
from appliance.memory.turns import Chat
from tui.clean import shown_line
from tui.counting import counted
from tui.screens.dialogs import AskText
from tui.screens.frame import Frame
from tui.session import MOST_CHATS
from tui.widgets.plain import Plain

_TITLES = {"current": "Chats", "archived": "Archived chats", "trash": "Trash"}


class ChatsScreen(Frame):
    """The list of chats, or of what a search found in all of them."""

    CSS_PATH = "chats.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("down", "app.focus_next", show=False),
        # Priority: what is typed right behind the slash must find the field focused, or it would be commands.
        Binding("slash", "search", "Search", priority=True),
        Binding("n", "new_chat", "New"),
        Binding("r", "rename", "Rename"),
        Binding("p", "pin", "Pin"),
        Binding("a", "archive", "Archive"),
        Binding("d,delete", "delete", "Delete"),
        Binding("u", "undo", "Undo"),
        Binding("s", "shelf", "Shelf"),
    ]

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self._query = query
        self._shelf: int = 0
        self._chats: dict[str, Chat] = {}
        self._hidden_turns: set[str] = set()

    def compose(self) -> ComposeResult:
        yield Plain(classes="page-title")
        yield Input(self._query, placeholder='search all chats: words, or "a phrase"', id="query")
        yield OptionList(id="chats", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        """List the chats."""
        await self._list()
        self.query_one("#chats").focus()

    async def action_back(self) -> None:
        """Leave the search, then the screen."""
        field = self.query_one("#query", Input)
        if field.has_focus or field.value:
            field.value = ""
            self.query_one("#chats").focus()
            return
        self.app.pop_screen()

    def action_search(self) -> None:
        """Go to the search field; there, a slash is a slash."""
        field = self.query_one("#query", Input)
        if field.has_focus:
            field.insert_text_at_cursor("/")
        else:
            self.set_focus(field)

    async def action_new_chat(self) -> None:
        """Begin a new chat."""
        self.app.pop_screen()
        await self.ui.leave_chat()

    async def action_shelf(self) -> None:
        """Show the next shelf: chats in use, archived ones, the trash."""
        self._shelf = (self._shelf + 1) % len(_TITLES)
        await self._list()

    async def action_rename(self) -> None:
        """Ask for another title."""
        chat = self._marked()
        if chat is None:
            return
        chat_id = chat.id

        async def rename(title: str | None) -> None:
            if title:
                await self._change(self.session.chats.rename(chat_id, title))

        await self.app.push_screen(AskText("Rename the chat", chat.title), rename)

    async def action_pin(self) -> None:
        """Pin the marked chat, or let it go."""
        if chat := self._marked():
            await self._change(self.session.chats.pin(chat.id, is_pinned=not chat.is_pinned))

    async def action_archive(self) -> None:
        """Archive the marked chat, or bring it back."""
        if chat := self._marked():
            await self._change(self.session.chats.archive(chat.id, is_archived=not chat.is_archived))

    async def action_delete(self) -> None:
        """Move the marked chat to the trash."""
        chat = self._marked()
        if chat is None or chat.is_deleted:
            return
        if await self._change(self.session.chats.delete(chat.id)) is None:
            return
        if chat.id == self.ui.shown_chat_id:
            await self.ui.leave_chat()
        self.notify_plain(f"deleted: {chat.title}\nu brings it back")

    async def action_undo(self) -> None:
        """Bring back the chat deleted last."""
        try:
            chat = await self.session.chats.undo_delete()
        except ApplianceError as exc:
            self.tell(exc)
            return
        self.notify_plain(f"brought back: {chat.title}" if chat else "the trash is empty")
        await self._list()

    @on(Input.Changed, "#query")
    async def _search(self) -> None:
        await self._list()

    @on(Input.Submitted, "#query")
    async def _open_found(self) -> None:
        option = self.query_one("#chats", OptionList).highlighted_option
        if option is not None:
            await self._open_option(option)

    @on(OptionList.OptionSelected, "#chats")
    async def _open(self, event: OptionList.OptionSelected) -> None:
        await self._open_option(event.option)

    async def _change(self, change: Awaitable[Chat]) -> Chat | None:
        """Wait for a change and list the chats anew; None when it failed, which the user is told."""
        try:
            chat = await change
        except ApplianceError as exc:
            self.tell(exc)
            return None
        await self._list()
        return chat

    async def _open_option(self, option: Option) -> None:
        chat_id, _, turn_id = (option.id or "").partition(":")
        turn_id = turn_id.partition(":")[0]
        if turn_id in self._hidden_turns:
            await self.session.chats.show_branch_of(turn_id)
        chat = self._chats.get(chat_id)
        if chat is not None and chat.is_deleted:
            self.notify_plain("this chat is in the trash · u brings back the one deleted last", is_bad=True)
            return
        await self.ui.open_chat(chat_id)

    def _marked(self) -> Chat | None:
        option = self.query_one("#chats", OptionList).highlighted_option
        return self._chats.get((option.id or "").partition(":")[0]) if option else None

    async def _list(self) -> None:
        query = self.query_one("#query", Input).value.strip()
        try:
            options = await self._found(query) if query else await self._shelved()
        except ApplianceError as exc:
            self.tell(exc)
            return
        listed = self.query_one("#chats", OptionList)
        mark = listed.highlighted or 0
        listed.clear_options()
        listed.add_options(options)
        listed.highlighted = min(mark, len(options) - 1) if options else None
        self.query_one(".page-title", Plain).show(self._title(len(options), is_search=bool(query)))
        await self.ui.chats_changed()

    def _title(self, count: int, *, is_search: bool) -> str:
        parts = [list(_TITLES.values())[self._shelf], f"{count} found" if is_search else f"{count}"]
        if count >= MOST_CHATS and not is_search:
            parts.append("the ones used last, / finds the others")
        if self.session.server:
            parts.append(f"kept on this machine, not on {self.session.server}")
        return " · ".join(parts)

    async def _shelved(self) -> list[Option]:
        match self._shelf:
            case 1:
                chats = await self.session.chats.list_chats("archived")
            case 2:
                chats = await self.session.chats.list_chats("trash")
            case _:
                chats = await self.session.chats.list_chats()
        self._chats = {chat.id: chat for chat in chats}
        return [Option(_chat_line(chat), id=chat.id) for chat in chats]

    async def _found(self, query: str) -> list[Option]:
        hits = await self.session.chats.search(query)
        self._chats = {}
        self._hidden_turns = {hit.turn_id for hit in hits if not hit.is_shown}
        options: list[Option] = []
        for position, hit in enumerate(hits):
            aside = "  (another branch)" if not hit.is_shown else ""
            head = Content.assemble((shown_line(hit.chat_title, 60), "bold"), (aside, "$text-muted"))
            excerpt = shown_line(hit.excerpt, 200)
            line = Content.assemble(f"  {hit.role or 'title'}: ", excerpt)
            options.append(
                Option(Content("\n").join([head, line]), id=f"{hit.chat_id}:{hit.turn_id}:{position}")
            )
        return options


def _chat_line(chat: Chat) -> Content:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(chat.updated_at_s))
    mark = "★ " if chat.is_pinned else "  "
    return Content.assemble(
        (mark, "$warning"),
        (used, "$text-muted"),
        (f" {counted(chat.turn_count, 'turn'):>10}  ", "$text-muted"),
        shown_line(chat.title, 120),
    )
