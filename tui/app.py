"""The application: paints at once, opens the session behind the screen, and leaves the terminal as it was."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import ClassVar

from textual import on
from textual.app import App, SuspendNotSupported, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from appliance.config.keys import USUAL_KEYS
from appliance.core.errors import ApplianceError
from tui.clean import shown, typed
from tui.clipboard import copy_note, fits_clipboard, write_copy
from tui.screens.chat import ChatScreen
from tui.screens.frame import Frame
from tui.screens.help import key_name
from tui.screens.places import Place
from tui.session import Session
from tui.warming import prepare_answers

_LEFT_WITHIN_S = 10.0
DARK, LIGHT = "textual-dark", "textual-light"


class ApplianceUI(App[None]):
    """The terminal interface. `failure` holds what ended it when that was a bug."""

    class SessionOpened(Message):
        """The session is open, or cannot be opened."""

        def __init__(self, error: ApplianceError | None = None) -> None:
            super().__init__()
            self.error = error

    class ModelLoaded(Message):
        """The model is loaded, or cannot be loaded."""

        def __init__(self, error: ApplianceError | None = None) -> None:
            super().__init__()
            self.error = error

    TITLE = "appliance"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "show('help')", "Help", priority=True, id="help"),
        Binding("f2", "show('chats')", "Chats", priority=True, show=False, id="chats"),
        Binding("f3", "show('library')", "Library", priority=True, show=False, id="library"),
        Binding("f4", "show('models')", "Models", priority=True, show=False, id="models"),
        Binding("f5", "show('settings')", "Settings", priority=True, show=False, id="settings"),
        Binding("f6", "show('log')", "Log", priority=True, show=False, id="log"),
        Binding("f7", "show('memory')", "Memory", priority=True, show=False, id="memory"),
        Binding("f8", "show('extract')", "Extract", priority=True, show=False, id="extract"),
        Binding("f9", "show('bench')", "Bench", priority=True, show=False, id="bench"),
        Binding("ctrl+q", "quit", "Quit", priority=True, show=False, id="quit"),
    ]

    def __init__(
        self,
        session: Session,
        *,
        theme: str = "",
        copy_folder: Path | None = None,
        keys: Mapping[str, str] = USUAL_KEYS,
        at_rest: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.session = session
        self.keys = keys
        self.at_rest = at_rest
        self.is_session_open = False
        self.session_error: ApplianceError | None = None
        self.model_state = ""
        self.failure: Exception | None = None
        self._copy_folder = copy_folder or Path(tempfile.gettempdir())
        self._wanted_theme = theme or (LIGHT if _is_light_terminal() else DARK)
        self._chat_screen = ChatScreen()

    def on_mount(self) -> None:
        """Paint, then open the session."""
        self.theme = self._wanted_theme
        self.set_keymap(dict(self.keys))
        self.push_screen(self._chat_screen)
        self._leave_on_signals()
        # Only once the screen is there: what is imported then would keep it from being drawn.
        self._chat_screen.call_after_refresh(self._open_session)

    async def on_unmount(self) -> None:
        """Close the session."""
        await self.session.close()

    def _open_session(self) -> None:
        async def open_it() -> None:
            try:
                await self.session.open()
            except ApplianceError as exc:
                self.post_message(self.SessionOpened(exc))
            else:
                self.post_message(self.SessionOpened())

        self.run_worker(open_it(), group="session")

    @on(SessionOpened)
    async def _take_session(self, message: SessionOpened) -> None:
        if message.error is not None:
            self.session_error = message.error
            self.model_state = "cannot be used"
            self._chat_screen.session_failed(message.error)
            return
        self.is_session_open = True
        await self._chat_screen.session_opened()
        self.load_model()
        self.run_worker(asyncio.to_thread(prepare_answers), group="prepare")

    def load_model(self) -> None:
        """Load the model behind the screen."""

        async def load() -> None:
            try:
                await self.session.models.load(self.session.model)
            except ApplianceError as exc:
                self.post_message(self.ModelLoaded(exc))
            else:
                self.post_message(self.ModelLoaded())

        self._say_model_state("loading…")
        self.run_worker(load(), group="load", exclusive=True)

    @on(ModelLoaded)
    def _take_model(self, message: ModelLoaded) -> None:
        self._say_model_state("ready" if message.error is None else "not loaded")
        if message.error is not None:
            self._chat_screen.tell(message.error)

    async def use_model(self, name: str) -> None:
        """Let another model answer, and load it."""
        await self.session.check_model(name)
        self.session.model = name
        await self._chat_screen.refresh_window()
        self.load_model()

    async def action_show(self, place: Place) -> None:
        """Go to a screen; the one that is shown gives way."""
        if isinstance(self.screen, ChatScreen) is False and len(self.screen_stack) > 2:
            self.pop_screen()
        if place == "chat":
            return
        if place not in ("help", "settings") and not self.is_session_open:
            if self.session_error is not None:
                self._chat_screen.tell(self.session_error)
            else:
                self._chat_screen.notify_plain("One moment: the store is being opened")
            return
        await self.push_screen(self._screen_of(place))

    async def show_chats(self, query: str = "") -> None:
        """Go to the list of chats, or to what a search found."""
        from tui.screens.chats import ChatsScreen

        await self.push_screen(ChatsScreen(query))

    async def open_chat(self, chat_id: str, *, turn_id: str = "") -> None:
        """Show a chat, at a turn where one is named."""
        self._leave_other_screens()
        await self._chat_screen.open_chat(chat_id)
        if turn_id and (view := await self._chat_screen.transcript.go_to_turn(turn_id)):
            view.focus()

    async def ask_documents(self, question: str) -> None:
        """Put a question to the documents, in the chat."""
        self._leave_other_screens()
        if self._chat_screen.is_free():
            await self._chat_screen.send(question, asks_documents=True)

    def _leave_other_screens(self) -> None:
        # Not awaited: this may run in the very screen that goes, which would wait for itself.
        while not isinstance(self.screen, ChatScreen):
            self.pop_screen()

    async def chats_changed(self) -> None:
        """Show names and order of chats as they are now."""
        await self._chat_screen.refresh_sidebar()

    @property
    def shown_chat_id(self) -> str:
        """The chat on the chat screen, or an empty text."""
        return self._chat_screen.chat.id if self._chat_screen.chat else ""

    async def leave_chat(self) -> None:
        """Show an empty chat, since the one shown was deleted."""
        await self._chat_screen.action_new_chat()

    def switch_theme(self, wanted: str = "") -> None:
        """Switch between light and dark."""
        is_dark = self.current_theme.dark
        self.theme = {"light": LIGHT, "dark": DARK}.get(wanted, LIGHT if is_dark else DARK)

    def copy_text(self, text: str, what: str) -> str:
        """Copy text through the terminal, or to a file where it cannot; say where it went."""
        cleaned = shown(text)
        if not fits_clipboard(cleaned, os.environ):
            return self.copy_to_file(cleaned)
        self.copy_to_clipboard(cleaned)
        return copy_note(what, len(cleaned), os.environ)

    def copy_to_file(self, text: str) -> str:
        """Write text to a file of the user's; say which."""
        return write_copy(self._copy_folder, shown(text))

    def in_editor(self, text: str) -> str | None:
        """Let the user edit text in $VISUAL or $EDITOR."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            with tempfile.TemporaryDirectory(prefix="appliance-") as folder:
                path = Path(folder) / "question.md"
                path.write_text(text, encoding="utf-8")
                with self.suspend():
                    finished = subprocess.run([*shlex.split(editor), str(path)], check=False)
                self.refresh()
                if finished.returncode != 0:
                    self._chat_screen.notify_plain(f"{editor} ended with {finished.returncode}", is_bad=True)
                    return None
                return typed(path.read_text(encoding="utf-8", errors="replace")).rstrip("\n")
        except (OSError, ValueError, SuspendNotSupported) as exc:
            self._chat_screen.notify_plain(f"{editor} cannot be started: {exc}", is_bad=True)
            return None

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """List what the palette offers."""
        yield SystemCommand("New chat", key_name(self.keys["new_chat"]), self._palette_new_chat)
        places: list[tuple[Place, str]] = [
            ("chats", "list, search, rename, delete"),
            ("library", "documents and search"),
            ("models", "catalogue, pull, load"),
            ("settings", "every setting and its source"),
            ("log", "requests with their times, and what the workers wrote"),
            ("memory", "facts to confirm, correct, delete"),
            ("extract", "a row of fields from each document"),
            ("bench", "measure the speed of a model here"),
            ("help", "keys and commands"),
        ]
        for place, summary in places:
            what = f"{key_name(self.keys[place])}: {summary}"
            yield SystemCommand(place.capitalize(), what, self._shower(place))
        yield SystemCommand("Light or dark", "Switch the theme", self.switch_theme)
        yield SystemCommand("Quit", key_name(self.keys["quit"]), self.exit)

    def _shower(self, place: Place) -> Callable[[], None]:
        def show() -> None:
            self.call_later(self.action_show, place)

        return show

    def _palette_new_chat(self) -> None:
        self.call_later(self._chat_screen.action_new_chat)

    def _screen_of(self, place: Place) -> Frame:
        match place:
            case "chats":
                from tui.screens.chats import ChatsScreen

                return ChatsScreen()
            case "models":
                from tui.screens.models import ModelsScreen

                return ModelsScreen()
            case "library":
                from tui.screens.library import LibraryScreen

                return LibraryScreen()
            case "memory":
                from tui.screens.memory import MemoryScreen

                return MemoryScreen()
            case "extract":
                from tui.screens.extract import ExtractScreen

                return ExtractScreen()
            case "settings":
                from tui.screens.settings import SettingsScreen

                return SettingsScreen()
            case "log":
                from tui.screens.log import LogScreen

                return LogScreen()
            case "bench":
                from tui.screens.bench import BenchScreen

                return BenchScreen()
            case _:
                from tui.screens.help import help_text
                from tui.screens.text_page import TextPage

                return TextPage("Help", help_text(self.keys))

    def _say_model_state(self, state: str) -> None:
        self.model_state = state
        if self._chat_screen.is_attached:
            self._chat_screen.show_title()

    def _leave_on_signals(self) -> None:
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, lambda: self.exit(return_code=1))
        Thread(target=self._leave_without_terminal, args=(loop,), name="terminal", daemon=True).start()

    def _leave_without_terminal(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leave when the terminal went away, whether or not a signal says so.

        Then reading it never waits again and writing to it may wait for ever, so the program ends without an
        orderly leave where that takes too long; what was shown is on disk.
        """
        poller = select.poll()
        poller.register(0, 0)
        poller.poll()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: self.exit(return_code=1))
        time.sleep(_LEFT_WITHIN_S)
        os._exit(1)

    def _handle_exception(self, error: Exception) -> None:
        self.failure = self.failure or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """End without printing the values of variables, which hold what was said and its control bytes."""
        self._close_messages_no_wait()


def _is_light_terminal() -> bool:
    """Whether the terminal says that its background is light, as `COLORFGBG=0;15` does."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background in ("7", "15")
