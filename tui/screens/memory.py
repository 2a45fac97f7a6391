"""What is remembered of the user: proposals to confirm, confirmed facts, and the summaries of the chat."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError
from appliance.memory.facts import Fact
from appliance.memory.turns import Summary
from tui.clean import shown_line
from tui.counting import counted
from tui.screens.dialogs import AskText, Confirm
from tui.screens.frame import Frame
from tui.screens.text_page import TextPage
from tui.widgets.plain import Plain

_MODES = {
    "off": "switched off",
    "ask": "only confirmed ones enter prompts",
    "save": "saved at once",
}
_EMPTY = (
    "Nothing is remembered yet. After a chat, what you said of yourself is proposed here in your own words. "
    "n adds a fact, p looks for some in the chat that is open."
)


class MemoryScreen(Frame):
    """Facts and summaries, and what can be done with the marked one."""

    CSS_PATH = "rows.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("y", "confirm", "Confirm"),
        Binding("e", "correct", "Correct"),
        Binding("d,delete", "delete", "Delete"),
        Binding("n", "add", "Add"),
        Binding("o", "open_source", "Source"),
        Binding("p", "propose", "Propose"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._facts: dict[str, Fact] = {}
        self._summaries: dict[str, Summary] = {}

    def compose(self) -> ComposeResult:
        yield Plain("Memory", classes="page-title")
        yield OptionList(classes="rows", markup=False)
        with VerticalScroll(classes="detail", can_focus=False):
            yield Plain(id="detail")
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        """List what is remembered."""
        self.query_one(OptionList).focus()
        await self._refill()

    async def _refill(self) -> None:
        memory = self.session.memory
        proposed = await memory.facts("proposed")
        confirmed = await memory.facts("confirmed")
        chat_id = self.ui.shown_chat_id
        summaries = await self.session.chats.summaries(chat_id) if chat_id else []
        self._facts = {fact.id: fact for fact in (*proposed, *confirmed)}
        self._summaries = {summary.id: summary for summary in summaries}
        self.query_one(".page-title", Plain).show(
            f"Memory · {counted(len(confirmed), 'fact')} · {len(proposed)} to confirm · {_MODES[memory.mode]}"
        )
        options = [Option(_fact_line(fact), id=fact.id) for fact in self._facts.values()]
        options += [Option(_summary_line(summary), id=summary.id) for summary in summaries]
        listed = self.query_one(OptionList)
        mark = listed.highlighted or 0
        listed.clear_options()
        listed.add_options(options)
        listed.highlighted = min(mark, len(options) - 1) if options else None
        if not options:
            self.query_one("#detail", Plain).show(_EMPTY)

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        option_id = event.option.id or ""
        fact = self._facts.get(option_id)
        text = _fact_detail(fact) if fact else _summary_detail(self._summaries[option_id])
        self.query_one("#detail", Plain).show(text)

    @on(OptionList.OptionSelected)
    async def _open(self, event: OptionList.OptionSelected) -> None:
        summary = self._summaries.get(event.option.id or "")
        if summary is not None:
            await self.app.push_screen(TextPage("Summary", summary.text))
            return
        await self.action_confirm()

    def action_back(self) -> None:
        """Go back."""
        self.app.pop_screen()

    async def action_confirm(self) -> None:
        """Save the marked proposal."""
        fact = self._marked()
        if fact is None or fact.state == "confirmed":
            return

        async def confirm() -> None:
            saved = await self.session.memory.confirm(fact.id)
            if saved.replaced_text:
                self.notify_plain(f"took the place of “{saved.replaced_text}”")

        await self._change(confirm)

    async def action_correct(self) -> None:
        """Ask for other words for the marked fact."""
        fact = self._marked()
        if fact is None:
            return

        async def correct(text: str | None) -> None:
            if text is not None and text.strip() and text != fact.text:
                await self._change(lambda: self.session.memory.correct(fact.id, text))

        await self.app.push_screen(AskText("Correct this fact", fact.text), correct)

    async def action_delete(self) -> None:
        """Ask, then remove the marked fact."""
        fact = self._marked()
        if fact is None:
            return

        async def delete(is_sure: bool | None) -> None:
            if is_sure:
                await self._change(lambda: self.session.memory.delete(fact.id))

        await self.app.push_screen(Confirm(f"Forget “{shown_line(fact.text, 60)}”?"), delete)

    async def action_add(self) -> None:
        """Ask for a fact to save."""

        async def add(text: str | None) -> None:
            if text and text.strip():
                await self._change(lambda: self.session.memory.add(text))

        await self.app.push_screen(AskText("What shall be remembered?"), add)

    async def action_open_source(self) -> None:
        """Go to the chat in which the marked fact was said."""
        fact = self._marked()
        if fact is None or not fact.source_turn_id:
            self.notify_plain("this was stated outright, in no chat")
            return
        try:
            await self.session.chats.show_branch_of(fact.source_turn_id)
        except ApplianceError as exc:
            self.tell(exc)
            return
        await self.ui.open_chat(fact.source_chat_id, turn_id=fact.source_turn_id)

    def action_propose(self) -> None:
        """Look for facts in the chat that is open."""
        chat_id = self.ui.shown_chat_id
        if not chat_id:
            self.notify_plain("no chat is open", is_bad=True)
            return
        self.query_one("#detail", Plain).show("looking for what is worth remembering…")
        self.fetch(self.session.memory.propose(chat_id), self._show_proposed, group="propose")

    async def _show_proposed(self, proposed: list[Fact]) -> None:
        if not proposed:
            self.notify_plain("nothing was found that is worth remembering")
        await self._refill()

    async def _change(self, change: Callable[[], Awaitable[object]]) -> None:
        try:
            await change()
        except ApplianceError as exc:
            self.tell(exc)
        await self._refill()

    def _marked(self) -> Fact | None:
        option = self.query_one(OptionList).highlighted_option
        return self._facts.get(option.id or "") if option else None


def _fact_line(fact: Fact) -> Content:
    mark, style = ("? ", "$text-warning") if fact.state == "proposed" else ("✓ ", "$text-success")
    state = "to confirm" if fact.state == "proposed" else ""
    return Content.assemble((mark, style), shown_line(fact.text, 120), (f"  {state}", "$text-muted"))


def _summary_line(summary: Summary) -> Content:
    head = f"{len(summary.covered_turn_ids)} turns of this chat, summarised: "
    return Content.assemble(("Σ ", "$text-accent"), (head, "$text-muted"), shown_line(summary.text, 80))


def _fact_detail(fact: Fact) -> str:
    said = "corrected by you" if fact.is_corrected else "in your own words"
    origin = f"{said}, from a chat · o opens it" if fact.source_turn_id else "stated outright"
    until = f" · holds until {_day(fact.expires_at_s)}" if fact.expires_at_s is not None else ""
    return f"{fact.text}\n{origin} · {_day(fact.updated_at_s)}{until}"


def _summary_detail(summary: Summary) -> str:
    return (
        f"{summary.text}\nwritten by {summary.made_by} · {_day(summary.created_at_s)} · Enter reads it whole"
    )


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
