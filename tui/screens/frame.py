"""What every screen shares: the session, work beside the screen, messages to the user, the clipboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from textual import on
from textual.message import Message
from textual.screen import Screen

from appliance.core.errors import ApplianceError, InternalError
from tui.clean import shown

if TYPE_CHECKING:
    from tui.app import ApplianceUI
    from tui.session import Session

_Value = TypeVar("_Value")


class Frame(Screen[None]):
    """A screen of the appliance."""

    class Arrived(Message):
        """A worker brought something; `show` puts it on the screen."""

        def __init__(self, show: Callable[[], Awaitable[None] | None]) -> None:
            super().__init__()
            self.show = show

    @property
    def ui(self) -> ApplianceUI:
        """The application."""
        from tui.app import ApplianceUI

        app = self.app
        assert isinstance(app, ApplianceUI)
        return app

    @property
    def session(self) -> Session:
        """The appliance."""
        return self.ui.session

    @property
    def is_open(self) -> bool:
        """Whether the session is open."""
        return self.ui.is_session_open

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return self.session.model

    @property
    def model_state(self) -> str:
        """What the model is doing."""
        return self.ui.model_state

    @model_state.setter
    def model_state(self, state: str) -> None:
        self.ui.model_state = state

    def fetch(
        self,
        coming: Coroutine[object, object, _Value],
        show: Callable[[_Value], Awaitable[None] | None],
        *,
        group: str,
        on_error: Callable[[ApplianceError], Awaitable[None] | None] | None = None,
    ) -> None:
        """Let a worker wait for a value; a handler of this screen then shows it. One at a time in a group."""

        async def wait() -> None:
            try:
                value = await coming
            except ApplianceError as exc:
                self.post_message(self.Arrived(partial(on_error or self.tell, exc)))
            except Exception as exc:  # noqa: BLE001  the task boundary: a bug ends the work, not the program
                error = InternalError(f"{type(exc).__name__}: {exc}", hint="this is a bug of the appliance")
                self.post_message(self.Arrived(partial(on_error or self.tell, error)))
            else:
                self.post_message(self.Arrived(partial(show, value)))

        self.run_worker(wait(), group=group, exclusive=True, exit_on_error=False)

    @on(Arrived)
    async def _show_arrived(self, message: Arrived) -> None:
        showing = message.show()
        if showing is not None:
            await showing

    def notify_plain(self, text: str, *, is_bad: bool = False) -> None:
        """Show a message for a while; text of any origin."""
        self.notify(shown(text), severity="error" if is_bad else "information", markup=False)

    def tell(self, error: ApplianceError) -> None:
        """Show what failed and what can be done."""
        hint = f"\n{error.hint}" if error.hint else ""
        self.notify_plain(f"{error.message}{hint}", is_bad=True)

    def copy(self, text: str, what: str) -> None:
        """Copy text, and say honestly where it went."""
        self.notify_plain(self.ui.copy_text(text, what))

    def in_editor(self, text: str) -> str | None:
        """Let the user edit text in their editor; None when that was not possible."""
        return self.ui.in_editor(text)
