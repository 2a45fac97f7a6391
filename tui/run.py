"""Opens the interface over an appliance in this process, whose parts are imported after the first paint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance.config import Settings
from appliance.core.requests import SamplingParams
from tui.app import ApplianceUI
from tui.first_paint import restore_terminal
from tui.garbage import search_now, search_seldom
from tui.rows import SettingRow
from tui.session import (
    BenchPort,
    ChatPort,
    ExtractPort,
    ForgetPort,
    LibraryPort,
    LogPort,
    MemoryPort,
    ModelPort,
)

if TYPE_CHECKING:
    from tui.in_process.session import InProcessSession


def open_ui(settings: Settings, *, connect: str = "") -> int:
    """Run the interface until the user leaves; return the exit code."""
    app = ApplianceUI(
        LateSession(settings, connect=connect),
        copy_folder=settings.state_dir,
        keys=settings.keys,
        at_rest=search_now,
    )
    try:
        app.run()
    except BaseException:
        restore_terminal()
        raise
    if app.failure is not None:
        restore_terminal()
        raise app.failure
    return app.return_code or 0


class LateSession:
    """The in-process session, imported and built when it is opened."""

    def __init__(self, settings: Settings, *, connect: str = "") -> None:
        self._settings = settings
        self._connect = connect
        self._model = settings.model
        self._real: InProcessSession | None = None

    @property
    def chats(self) -> ChatPort:
        """The chats."""
        return self._opened.chats

    @property
    def models(self) -> ModelPort:
        """The models."""
        return self._opened.models

    @property
    def library(self) -> LibraryPort:
        """The documents."""
        return self._opened.library

    @property
    def memory(self) -> MemoryPort:
        """The long-term facts."""
        return self._opened.memory

    @property
    def forgetting(self) -> ForgetPort:
        """Forgetting for good."""
        return self._opened.forgetting

    @property
    def extraction(self) -> ExtractPort:
        """Rows out of documents."""
        return self._opened.extraction

    @property
    def bench(self) -> BenchPort:
        """Measurements."""
        return self._opened.bench

    @property
    def log(self) -> LogPort:
        """What happened."""
        return self._opened.log

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._real.model if self._real else self._model

    @model.setter
    def model(self, name: str) -> None:
        self._opened.model = name

    @property
    def sampling(self) -> SamplingParams:
        """How tokens are chosen."""
        return self._opened.sampling

    @property
    def is_offline(self) -> bool:
        """Whether every connection to another machine is forbidden."""
        return self._settings.offline

    @property
    def server(self) -> str:
        """The address of the server that answers; empty when that is this process."""
        return self._connect

    @property
    def data_goes_to(self) -> str:
        """The hosts that are sent what is asked, this machine left out."""
        return self._opened.data_goes_to

    def set_sampling(self, name: str, text: str) -> str:
        """Change one sampling value."""
        return self._opened.set_sampling(name, text)

    async def open(self) -> None:
        """Import the heavy parts in a thread, then open."""
        import asyncio

        def build() -> InProcessSession:
            from tui.in_process.session import InProcessSession

            return InProcessSession(self._settings)

        real = await asyncio.to_thread(build)
        if self._connect:
            from tui.connected.session import connected_session

            real = await connected_session(self._settings, self._connect)
        await real.open()
        self._real = real
        search_seldom()

    async def close(self) -> None:
        """Close what was opened."""
        if self._real is not None:
            await self._real.close()

    async def check_model(self, name: str) -> None:
        """Raise ModelNotFoundError for a name nobody knows."""
        await self._opened.check_model(name)

    async def context_window(self) -> int:
        """Return the window of the model that answers."""
        return await self._opened.context_window()

    def settings_rows(self) -> Sequence[SettingRow]:
        """Return every setting with its source."""
        return self._opened.settings_rows() if self._real else ()

    def read_history(self) -> list[str]:
        """Return what was asked before."""
        return self._opened.read_history()

    def add_history(self, text: str) -> None:
        """Remember a question."""
        self._opened.add_history(text)

    @property
    def _opened(self) -> InProcessSession:
        assert self._real is not None, "the session is not open yet"
        return self._real
