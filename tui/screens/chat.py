"""The conversation: ask, stop, edit, branch, and always the meter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError
from appliance.memory.turns import Chat, Turn
from tui.clean import shown_cell, shown_line
from tui.commands import is_command
from tui.receipt_text import sections_of
from tui.screens.answer_flow import AnswerEnded, AnswerFlow, EventArrived
from tui.screens.chat_actions import ChatActions
from tui.screens.chat_completion import Completion
from tui.screens.frame import Frame
from tui.screens.help import key_name, welcome
from tui.screens.text_page import TextPage
from tui.widgets.blank import blank_lines
from tui.widgets.copy_code import CodeWanted
from tui.widgets.fold import Fold
from tui.widgets.hints import Hints
from tui.widgets.keys_line import KeysLine
from tui.widgets.meter import Meter
from tui.widgets.notice import Notice
from tui.widgets.plain import Plain
from tui.widgets.prompt import Prompt
from tui.widgets.transcript import Details, Transcript
from tui.widgets.turn import TurnView

if TYPE_CHECKING:
    from appliance.memory.events import ChatEvent

_SHOWN_CHATS = 200
_NARROWEST_TITLE = 16


class _Column(Vertical):
    """Everything beside the list of chats."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background."""
        return blank_lines(self, crop)


class ChatScreen(Frame):
    """One conversation at a time. Answers are written by a worker that only posts messages."""

    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+n", "new_chat", "New", priority=True, id="new_chat"),
        Binding("ctrl+t", "receipt", "Receipt", priority=True, id="receipt"),
        Binding("tab", "complete", "Complete", show=False, priority=True),
        Binding("ctrl+c", "copy_or_stop", "Copy", show=False, priority=True),
        Binding("f2", "app.show('chats')", "Chats", priority=True, id="chats"),
        Binding("f3", "app.show('library')", "Library", priority=True, id="library"),
        Binding("f4", "app.show('models')", "Models", priority=True, id="models"),
        Binding("ctrl+p", "app.command_palette", "All", priority=True, id="palette"),
        Binding("ctrl+q", "app.quit", "Quit", priority=True, id="quit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]
        self.chat: Chat | None = None
        self.last_answer: Turn | None = None
        self.editing: Turn | None = None
        self.unsaved_question = ""
        self._unsaved_edit: Turn | None = None
        self._waiting = ""
        self._actions = ChatActions(self)
        self._completion = Completion(self)
        self._flow = AnswerFlow(self)

    def compose(self) -> ComposeResult:
        yield OptionList(id="sidebar", markup=False)
        with _Column(id="main"):
            yield Plain(id="title")
            yield Plain(welcome(self.ui.keys), id="welcome")
            yield Transcript()
            yield Plain(id="pill")
            yield Notice()
            yield Hints()
            yield Prompt()
            yield Meter()
            yield KeysLine()

    def on_mount(self) -> None:
        """Begin with an empty chat; the session comes later."""
        self.transcript.display = False
        self.show_title()
        self.prompt.focus()
        self.set_interval(0.25, self._flow.tick)

    def on_resize(self) -> None:
        """Fit the title to the width."""
        self.call_after_refresh(self.show_title)

    async def session_opened(self) -> None:
        """Show what needed the store."""
        self.prompt.set_history(self.session.read_history())
        self.show_title()
        await self.refresh_sidebar()
        await self.refresh_window()
        waiting, self._waiting = self._waiting, ""
        self._flow.set_phase("")
        if waiting:
            self.post_message(Prompt.Submitted(waiting))

    def session_failed(self, error: ApplianceError) -> None:
        """Tell why nothing can be asked, and give back what waited to be."""
        self._flow.set_phase("")
        if self._waiting and not self.prompt.text:
            self.prompt.write(self._waiting)
        self._waiting = ""
        self.tell(error)
        self.show_title()

    async def refresh_window(self) -> None:
        """Ask how large the context window of the model is."""
        try:
            self.meter.change(window_tokens=await self.session.context_window())
        except ApplianceError as exc:
            self.tell(exc)

    async def refresh_sidebar(self) -> None:
        """List chats beside the conversation."""
        if not self.is_open:
            return
        try:
            chats = await self.session.chats.list_chats()
        except ApplianceError as exc:
            self.tell(exc)
            return
        sidebar = self.query_one("#sidebar", OptionList)
        sidebar.clear_options()
        sidebar.add_options(
            Option(Content(f"{'★ ' if chat.is_pinned else ''}{shown_line(chat.title, 80)}"), id=chat.id)
            for chat in chats[:_SHOWN_CHATS]
        )
        if len(chats) > _SHOWN_CHATS:
            sidebar.add_option(Option(f"{key_name(self.ui.keys['chats'])} lists the others", disabled=True))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background."""
        return blank_lines(self, crop)

    @property
    def meter(self) -> Meter:
        """The meter."""
        return self.query_one(Meter)

    @property
    def transcript(self) -> Transcript:
        """The turns."""
        return self.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        """The input."""
        return self.query_one(Prompt)

    @property
    def hints(self) -> Hints:
        """The lines above the input."""
        return self.query_one(Hints)

    @property
    def is_answering(self) -> bool:
        """Whether an answer is being written."""
        return self._flow.is_answering

    def say_phase(self, phase: str) -> None:
        """Say what is going on, with its seconds, in the meter; an empty text when it is over."""
        self._flow.set_phase(phase)

    def show_title(self) -> None:
        """Show which model and which chat this is."""
        title = self.chat.title if self.chat else "New chat"
        state = self.model_state
        parts = [
            ("  ", ""),
            (self.model_name, "$text-primary"),
            (f" {state}" if state else "", "$text-muted"),
            ("  offline" if self.is_open and self.session.is_offline else "", "$text-warning"),
            (self._leaving(), "$text-warning"),
        ]
        # What answers, and where, is said in full; the name of the chat makes room.
        line = self.query_one("#title", Plain)
        room = (line.size.width or self.size.width) - sum(cell_len(text) for text, _ in parts)
        title = shown_line(title)
        if cell_len(title) > room:
            title = shown_cell(title, max(_NARROWEST_TITLE, room)).rstrip()
        line.show_parts([(title, "bold"), *parts])

    def _leaving(self) -> str:
        """Say that what is asked leaves this machine, and for where."""
        host = self.session.data_goes_to if self.is_open else ""
        return f"  leaves this machine for {host}" if host else ""

    async def open_chat(self, chat_id: str) -> None:
        """Show a chat at its end."""
        if not self.is_free():
            return
        self._actions.left(self.chat)
        try:
            self.chat = await self.session.chats.get(chat_id)
            await self.show_turns(await self.session.chats.branch(chat_id))
        except ApplianceError as exc:
            self.tell(exc)
            return
        self.prompt.focus()

    def is_free(self) -> bool:
        """Say whether no answer is being written; tell the user where one is."""
        if self.is_answering:
            self.notify_plain("An answer is being written · Esc stops it", is_bad=True)
        return not self.is_answering

    async def show_turns(self, turns: list[Turn]) -> None:
        """Show a branch, with what was folded of it."""
        summaries = await self.session.chats.summaries(turns[0].chat_id) if turns else []
        self.last_answer = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
        self.query_one("#welcome").display = not turns
        self.transcript.display = bool(turns)
        folds = {summary.last_turn_id: summary for summary in summaries}
        await self.transcript.show(turns, self._details_of, folds)
        await self.show_meter_of(self.last_answer)
        self.show_title()

    async def _details_of(self, turns: Sequence[Turn]) -> Details:
        chats = self.session.chats
        turn_ids = [turn.id for turn in turns]
        answers = [turn.id for turn in turns if turn.role == "assistant"]
        # Asked together, for a reader who turns pages waits for all of them.
        branches, sources = await asyncio.gather(
            asyncio.gather(*map(chats.branches_at, turn_ids)), asyncio.gather(*map(chats.sources, answers))
        )
        return Details(
            branches=dict(zip(turn_ids, branches, strict=True)),
            sources={turn_id: found for turn_id, found in zip(answers, sources, strict=True) if found},
        )

    async def show_meter_of(self, turn: Turn | None) -> None:
        """Let the meter show what an answer took."""
        if turn is None or turn.answer is None:
            self.meter.set_state(type(self.meter.state)(window_tokens=self.meter.state.window_tokens))
            return
        receipt = await self.session.chats.receipt(turn.id)
        self.meter.change(
            usage=turn.answer.usage,
            timings=turn.answer.timings,
            sections=sections_of(receipt.receipt_json),
        )

    async def action_new_chat(self) -> None:
        """Begin a new chat; it is stored with its first question."""
        if not self.is_free():
            return
        self._actions.left(self.chat)
        self.chat = None
        self.editing = None
        await self.show_turns([])
        self.prompt.focus()

    def action_stop(self) -> None:
        """Stop the answer; otherwise leave what is being done, and go back to the input."""
        if self.is_answering:
            if self.chat is not None:
                self.session.chats.cancel(self.chat.id)
            self._flow.set_phase("stopping")
        elif self.selections:
            self.clear_selection()
        elif self.editing is not None:
            self.editing = None
            self.prompt.write("")
            self._completion.show("")
        else:
            self.prompt.focus()

    def action_complete(self) -> None:
        """Complete what is written; otherwise go to the last turn, or on to what is next."""
        # Bound with priority and without a message: the next key already finds the focus where it belongs.
        if not self.prompt.has_focus:
            self.focus_next()
        elif not self._completion.complete() and (views := list(self.query(TurnView))):
            self.set_focus(views[-1])

    def notify_plain(self, text: str, *, is_bad: bool = False) -> None:
        """Show a message above the input; over another screen where one is shown."""
        if self.is_current:
            self.query_one(Notice).tell(text, is_bad=is_bad)
        else:
            super().notify_plain(text, is_bad=is_bad)

    def action_copy_or_stop(self) -> None:
        """Copy what is selected; with nothing selected, stop the answer."""
        chosen = self.get_selected_text() or self.prompt.selected_text
        if chosen:
            self.copy(chosen, "selection")
        elif self.is_answering:
            self.action_stop()
        else:
            self.notify_plain("Nothing is selected · Ctrl+Q leaves")

    async def action_receipt(self) -> None:
        """Open the receipt of the last answer."""
        await self._actions.receipt(self.last_answer)

    def begin(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """Show an answer while it is written."""
        self.editing = None
        self.query_one("#welcome").display = False
        self.transcript.display = True
        self._flow.begin(events)

    @on(EventArrived)
    async def _take_event(self, message: EventArrived) -> None:
        await self._flow.take(message.event)

    @on(AnswerEnded)
    async def _end_answer(self, message: AnswerEnded) -> None:
        await self._flow.end(message.error)
        unsaved, self.unsaved_question = self.unsaved_question, ""
        if unsaved and not self.prompt.text:
            self.prompt.write(unsaved)
            self.editing = self._unsaved_edit
        await self._read_again(has_failed=message.error is not None)
        self.show_title()
        await self.refresh_sidebar()
        self.call_after_refresh(self.ui.at_rest)

    async def _read_again(self, *, has_failed: bool) -> None:
        """Show the chat as it is stored; another program may have taken it away."""
        if self.chat is None:
            return
        try:
            self.chat = await self.session.chats.get(self.chat.id)
            if has_failed:
                await self.show_turns(await self.session.chats.branch(self.chat.id))
        except ApplianceError as exc:
            self.tell(exc)

    @on(Prompt.Submitted)
    async def _submit(self, message: Prompt.Submitted) -> None:
        text = message.text
        if not text.strip():
            return
        if self.ui.session_error is not None:
            self.tell(self.ui.session_error)
            return
        if not self.is_open:
            self._waiting = text
            self.prompt.write("")
            self._flow.set_phase("opening the store, then sending")
            return
        if is_command(text.strip()):
            self.prompt.write("")
            await self._actions.command(text.strip())
        elif self.is_free():
            await self.send(text.removeprefix("/") if text.startswith("//") else text)

    async def send(self, text: str, *, asks_documents: bool = False) -> None:
        """Ask at the end of the chat, or in place of the question being edited."""
        edited, self.editing = self.editing, None
        try:
            scope = await self._completion.scope_of(text)
            if self.chat is None:
                self.chat = await self.session.chats.create()
        except ApplianceError as exc:
            self.editing = edited
            self.prompt.write(text)
            self.tell(exc)
            return
        self.prompt.write("")
        self.unsaved_question, self._unsaved_edit = text, edited
        self.prompt.remember(text)
        self._actions.asked()
        await asyncio.to_thread(self.session.add_history, text)
        chats = self.session.chats
        if edited is not None:
            self.begin(chats.edit(edited.id, text))
        elif asks_documents or scope.collections or scope.document_ids:
            self.begin(chats.ask_documents(self.chat.id, text, scope))
        else:
            self.begin(chats.ask(self.chat.id, text))

    @on(TextArea.Changed, "#prompt")
    def _note_draft(self) -> None:
        self.meter.change(draft_characters=len(self.prompt.text))
        self._completion.show(self.prompt.text)

    @on(Prompt.HistoryWanted)
    async def _search_history(self) -> None:
        await self._actions.pick_history()

    @on(Prompt.EditorWanted)
    def _edit_outside(self) -> None:
        text = self.in_editor(self.prompt.text)
        if text is not None:
            self.prompt.write(text)

    @on(Prompt.ScrollWanted)
    async def _scroll(self, message: Prompt.ScrollWanted) -> None:
        match message.key:
            case "pageup":
                self.transcript.go_back()
            case "pagedown":
                self.transcript.go_on()
            case "home" | "ctrl+home":
                await self.transcript.go_to_beginning()
            case _:
                self.transcript.follow()

    @on(Transcript.Moved)
    def _show_pill(self, message: Transcript.Moved) -> None:
        pill = self.query_one("#pill", Plain)
        pill.set_class(message.lines_below > 0, "shown")
        if message.lines_below:
            pill.show(f"↓ {message.lines_below} new lines · Ctrl+End")

    @on(TurnView.Wanted)
    async def _do_with_turn(self, message: TurnView.Wanted) -> None:
        await self._actions.with_turn(message.turn, message.action)

    @on(Fold.Opened)
    async def _read_summary(self, message: Fold.Opened) -> None:
        summary = message.summary
        title = f"Summary of {len(summary.covered_turn_ids)} turns, written by {summary.made_by}"
        await self.app.push_screen(TextPage(title, summary.text))

    @on(CodeWanted)
    def _copy_code(self, message: CodeWanted) -> None:
        self.copy(message.code, "code")

    @on(Meter.Opened)
    async def _open_receipt(self) -> None:
        await self.action_receipt()

    @on(OptionList.OptionSelected, "#sidebar")
    async def _open_from_sidebar(self, event: OptionList.OptionSelected) -> None:
        if event.option.id:
            await self.open_chat(event.option.id)
