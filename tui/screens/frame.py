"""What every screen shares: the session, messages to the user, the clipboard, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from appliance.core.errors import ApplianceError
from tui.clean import shown

if TYPE_CHECKING:
    from tui.app import ApplianceUI
    from tui.session import Session


class Frame(Screen[None]):
    """A screen of the appliance."""

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
