"""The conversation: ask, stop, edit, branch, and always the meter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar, assert_never

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Footer, OptionList, TextArea
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError, CancelledRequestError, InternalError
from appliance.core.events import (
    Completed,
    Failed,
    LoadProgress,
    PrefillProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReported,
)
from appliance.core.usage import Timings, Usage
from appliance.memory.turns import Chat, Turn
from tui.clean import shown_line
from tui.commands import completions, is_command
from tui.receipt_text import sections_of
from tui.screens.chat_actions import ChatActions
from tui.screens.frame import Frame
from tui.screens.help import WELCOME
from tui.widgets.meter import Meter
from tui.widgets.plain import Plain
from tui.widgets.prompt import Prompt
from tui.widgets.transcript import Transcript
from tui.widgets.turn import TurnView

if TYPE_CHECKING:
    from appliance.memory.session import ChatEvent

_SHOWN_CHATS = 200
_MOST_HINTS = 7


class ChatScreen(Frame):
    """One conversation at a time. Answers are written by a worker that only posts messages."""

    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+n", "new_chat", "New", priority=True),
        Binding("ctrl+t", "receipt", "Receipt", priority=True),
        Binding("ctrl+c", "copy_or_stop", "Copy", show=False, priority=True),
        Binding("f2", "app.show('chats')", "Chats", priority=True),
        Binding("f3", "app.show('library')", "Library", priority=True),
        Binding("f4", "app.show('models')", "Models", priority=True),
        Binding("ctrl+p", "app.command_palette", "All", priority=True),
        Binding("ctrl+q", "app.quit", "Quit", priority=True),
    ]

    class EventArrived(Message):
        """The answer went on."""

        def __init__(self, event: ChatEvent) -> None:
            super().__init__()
            self.event = event

    class AnswerEnded(Message):
        """No event will come any more; `error` is why none could."""

        def __init__(self, error: ApplianceError | None) -> None:
            super().__init__()
            self.error = error

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]
        self.chat: Chat | None = None
        self.last_answer: Turn | None = None
        self.editing: Turn | None = None
        self._is_answering = False
        self._phase_began_s = 0.0
        self._phase = ""
        self._waiting = ""
        self._actions = ChatActions(self)

    def compose(self) -> ComposeResult:
        yield OptionList(id="sidebar", markup=False)
        with Vertical(id="main"):
            yield Plain(id="title")
            yield Plain(WELCOME, id="welcome")
            yield Transcript()
            yield Plain(id="pill")
            yield Plain(id="hints")
            yield Prompt()
            yield Meter()
            yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin with an empty chat; the session comes later."""
        self.query_one(Transcript).display = False
        self.show_title()
        self.query_one(Prompt).focus()
        self.set_interval(0.25, self._tick)

    async def session_opened(self) -> None:
        """Show what needed the store."""
        self.query_one(Prompt).set_history(self.session.read_history())
        self.show_title()
        await self.refresh_sidebar()
        await self.refresh_window()
        waiting, self._waiting = self._waiting, ""
        self.set_phase("")
        if waiting:
            self.post_message(Prompt.Submitted(waiting))

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
    def is_answering(self) -> bool:
        """Whether an answer is being written."""
        return self._is_answering

    def show_title(self) -> None:
        """Show which model and which chat this is."""
        title = self.chat.title if self.chat else "New chat"
        state = self.model_state
        self.query_one("#title", Plain).show_parts(
            [
                (title, "bold"),
                ("  ", ""),
                (self.model_name, "$text-primary"),
                (f" {state}" if state else "", "$text-muted"),
                ("  offline" if self.is_open and self.session.is_offline else "", "$text-warning"),
            ]
        )

    async def open_chat(self, chat_id: str) -> None:
        """Show a chat at its end."""
        if self._is_answering:
            self.notify_plain("Stop the answer first: Esc", is_bad=True)
            return
        try:
            self.chat = await self.session.chats.get(chat_id)
            await self.show_turns(await self.session.chats.branch(chat_id))
        except ApplianceError as exc:
            self.tell(exc)
            return
        self.prompt.focus()

    async def show_turns(self, turns: list[Turn]) -> None:
        """Show a branch."""
        branches = {}
        for turn in turns[-40:]:
            branches[turn.id] = await self.session.chats.branches_at(turn.id)
        self.last_answer = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
        self.query_one("#welcome").display = not turns
        self.transcript.display = bool(turns)
        await self.transcript.show(turns, branches)
        await self._show_meter_of(self.last_answer)
        self.show_title()

    async def action_new_chat(self) -> None:
        """Begin a new chat; it is stored with its first question."""
        if self._is_answering:
            self.notify_plain("Stop the answer first: Esc", is_bad=True)
            return
        self.chat = None
        self.editing = None
        await self.show_turns([])
        self.prompt.focus()

    def action_stop(self) -> None:
        """Stop the answer; otherwise leave what is being done, and go back to the input."""
        if self._is_answering:
            if self.chat is not None:
                self.session.chats.cancel(self.chat.id)
            self.set_phase("stopping")
        elif self.selections:
            self.clear_selection()
        elif self.editing is not None:
            self.editing = None
            self.prompt.write("")
            self._show_hints("")
        else:
            self.prompt.focus()

    def action_copy_or_stop(self) -> None:
        """Copy what is selected; with nothing selected, stop the answer."""
        chosen = self.get_selected_text() or self.prompt.selected_text
        if chosen:
            self.copy(chosen, "selection")
        elif self._is_answering:
            self.action_stop()
        else:
            self.notify_plain("Nothing is selected · Ctrl+Q leaves")

    async def action_receipt(self) -> None:
        """Open the receipt of the last answer."""
        await self._actions.receipt(self.last_answer)

    def set_phase(self, phase: str) -> None:
        """Say what is happening; the meter counts its seconds."""
        if phase != self._phase:
            self._phase, self._phase_began_s = phase, time.monotonic()
        self._tick()

    def begin(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """Show an answer while it is written."""
        self._is_answering = True
        self.editing = None
        self.query_one("#welcome").display = False
        self.transcript.display = True
        self.set_phase("starting")
        self._pump(events)

    @work(exit_on_error=False, group="answer")
    async def _pump(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        error: ApplianceError | None = None
        try:
            async with aclosing(events) as arriving:
                async for event in arriving:
                    self.post_message(self.EventArrived(event))
        except ApplianceError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001  the task boundary: a bug ends the work, not the program
            error = InternalError(f"{type(exc).__name__}: {exc}", hint="this is a bug of the appliance")
        self.post_message(self.AnswerEnded(error))

    def ask_documents(self, question: str) -> None:
        """Ask the documents, and show the answer beside its sources."""
        if not question:
            self.notify_plain("/ask needs a question", is_bad=True)
        elif self._is_answering:
            self.notify_plain("An answer is being written · Esc stops it", is_bad=True)
        else:
            self.set_phase("asking the documents")
            self._ask_documents(question)

    @work(exclusive=True, group="documents")
    async def _ask_documents(self, question: str) -> None:
        from tui.screens.answer import AnswerScreen

        try:
            answer = await self.session.library.ask(question, self.session.model)
            await self.app.push_screen(AnswerScreen(question, answer))
        except ApplianceError as exc:
            self.tell(exc)
        finally:
            self.set_phase("")

    @on(EventArrived)
    async def _take_event(self, message: EventArrived) -> None:
        event = message.event
        match event.kind:
            case "turn_saved":
                await self._take_question(event.turn)
            case "history_folded":
                await self.transcript.add_remark(f"── {event.text} ──")
            case "answer_begun":
                await self._take_begun(event.turn)
            case "answer_saved":
                await self._take_saved(event.turn)
            case _:
                self._take_stream_event(event)

    def _take_stream_event(self, event: StreamEvent) -> None:
        match event:
            case LoadProgress():
                self.set_phase(f"loading the model {event.fraction:.0%}")
            case PrefillProgress():
                share = f"{event.processed_tokens:,}/{event.total_tokens:,}"
                self.set_phase(f"reading {share} ({event.cached_tokens:,} reused)")
                usage = Usage(input_tokens=event.total_tokens, cached_tokens=event.cached_tokens)
                self.meter.change(usage=usage, sections=(), timings=Timings())
            case TextDelta():
                self.set_phase("writing")
                self.transcript.write_live(event.text)
            case ReasoningDelta():
                self.set_phase("thinking")
                self.transcript.write_live_reasoning(event.text)
            case UsageReported():
                self.meter.change(usage=event.usage)
            case Completed() | Failed():
                self.meter.change(usage=event.usage, timings=event.timings)
            case ToolCallDelta():
                self.set_phase(f"calling {shown_line(event.name, 40)}")
            case _:
                assert_never(event)

    async def _take_question(self, turn: Turn) -> None:
        shown_ids = [shown.id for shown in self.transcript.turns]
        if turn.parent_id in shown_ids or not shown_ids:
            await self._cut_below(turn.parent_id)
            await self.transcript.add(turn)
        else:
            await self.show_turns([turn])
        self.transcript.follow()

    async def _take_begun(self, turn: Turn) -> None:
        await self._cut_below(turn.parent_id)
        self.model_state = "ready"
        self.show_title()
        await self.transcript.begin_live(turn)
        self.transcript.follow()

    async def _cut_below(self, parent_id: str | None) -> None:
        """Take away the turns of the branch that is left."""
        turns = list(self.transcript.turns)
        place = next((n + 1 for n, turn in enumerate(turns) if turn.id == parent_id), 0)
        if place < len(turns):
            await self.transcript.show(turns[:place], {})

    async def _take_saved(self, turn: Turn) -> None:
        await self.transcript.end_live(turn)
        self.last_answer = turn
        branches = await self.session.chats.branches_at(turn.id)
        if view := self.transcript.view_of(turn.id):
            view.set_turn(turn, branches)
        await self._show_meter_of(turn)

    @on(AnswerEnded)
    async def _end_answer(self, message: AnswerEnded) -> None:
        await self.transcript.end_live()
        self._is_answering = False
        self.set_phase("")
        if message.error is not None and not isinstance(message.error, CancelledRequestError):
            self.tell(message.error)
        if self.chat is not None:
            self.chat = await self.session.chats.get(self.chat.id)
            if message.error is not None:
                await self.show_turns(await self.session.chats.branch(self.chat.id))
        self.show_title()
        await self.refresh_sidebar()

    async def _show_meter_of(self, turn: Turn | None) -> None:
        if turn is None or turn.answer is None:
            self.meter.set_state(type(self.meter.state)(window_tokens=self.meter.state.window_tokens))
            return
        receipt = await self.session.chats.receipt(turn.id)
        self.meter.change(
            usage=turn.answer.usage,
            timings=turn.answer.timings,
            sections=sections_of(receipt.receipt_json),
        )

    @on(Prompt.Submitted)
    async def _submit(self, message: Prompt.Submitted) -> None:
        text = message.text
        if not text.strip():
            return
        if not self.is_open:
            self._waiting = text
            self.prompt.write("")
            self.set_phase("opening the store, then sending")
            return
        if is_command(text.strip()):
            self.prompt.write("")
            await self._actions.command(text.strip())
            return
        if self._is_answering:
            self.notify_plain("An answer is being written · Esc stops it", is_bad=True)
            return
        await self._send(text.removeprefix("/") if text.startswith("//") else text)

    async def _send(self, text: str) -> None:
        edited, self.editing = self.editing, None
        try:
            if self.chat is None:
                self.chat = await self.session.chats.create()
        except ApplianceError as exc:
            self.tell(exc)
            return
        self.prompt.write("")
        self.prompt.remember(text)
        await asyncio.to_thread(self.session.add_history, text)
        chats = self.session.chats
        self.begin(chats.edit(edited.id, text) if edited else chats.ask(self.chat.id, text))

    @on(TextArea.Changed, "#prompt")
    def _note_draft(self) -> None:
        text = self.prompt.text
        self.meter.change(draft_characters=len(text))
        self._show_hints(text)

    def _show_hints(self, text: str) -> None:
        hints = self.query_one("#hints", Plain)
        found = completions(text)
        lines = [f"{command.usage:<28} {command.summary}" for command in found[:_MOST_HINTS]]
        if len(found) > _MOST_HINTS:
            lines.append(f"… {len(found) - _MOST_HINTS} more · Tab completes")
        if self.editing is not None:
            lines = ["editing an earlier question · Enter sends it on a new branch · Esc leaves it"]
        hints.set_class(bool(lines), "shown")
        hints.show("\n".join(lines))

    @on(Prompt.CompletionWanted)
    def _complete(self) -> None:
        found = completions(self.prompt.text)
        if found:
            exact = [command.name for command in found]
            current = self.prompt.text
            self.prompt.write(exact[1] if current == exact[0] and len(exact) > 1 else f"{exact[0]}")

    @on(Prompt.HistoryWanted)
    async def _search_history(self) -> None:
        await self._actions.pick_history()

    @on(Prompt.EditorWanted)
    def _edit_outside(self) -> None:
        text = self.in_editor(self.prompt.text)
        if text is not None:
            self.prompt.write(text)

    @on(Prompt.ScrollWanted)
    def _scroll(self, message: Prompt.ScrollWanted) -> None:
        match message.key:
            case "pageup":
                self.transcript.scroll_page_up(animate=False)
            case "pagedown":
                self.transcript.scroll_page_down(animate=False)
            case "tab":
                if views := list(self.query(TurnView)):
                    views[-1].focus()
            case "home" | "ctrl+home":
                self.transcript.scroll_home(animate=False)
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

    @on(Meter.Opened)
    async def _open_receipt(self) -> None:
        await self.action_receipt()

    @on(OptionList.OptionSelected, "#sidebar")
    async def _open_from_sidebar(self, event: OptionList.OptionSelected) -> None:
        if event.option.id:
            await self.open_chat(event.option.id)

    def _tick(self) -> None:
        waited_s = time.monotonic() - self._phase_began_s
        phase = self._phase
        if phase and phase != "writing" and waited_s >= 1:
            phase = f"{phase} {waited_s:.0f} s"
        if phase != self.meter.state.phase:
            self.meter.change(phase=phase)
