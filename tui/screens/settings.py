"""Every setting, its value, and where that came from."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from tui.clean import shown_cell, shown_line
from tui.rows import SettingRow
from tui.screens.frame import Frame
from tui.widgets.plain import Plain


class SettingsScreen(Frame):
    """Settings are read once; the file, the environment and flags change them."""

    CSS_PATH = "rows.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("t", "theme", "Light or dark"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, SettingRow] = {}

    def compose(self) -> ComposeResult:
        yield Plain("Settings · flag over environment over file over default", classes="page-title")
        yield OptionList(classes="rows", markup=False)
        with VerticalScroll(classes="detail", can_focus=False):
            yield Plain(id="detail")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List the settings."""
        self._rows = {row.name: row for row in self.session.settings_rows()}
        listed = self.query_one(OptionList)
        listed.add_options(Option(_line(row), id=row.name) for row in self._rows.values())
        listed.highlighted = 0 if self._rows else None
        listed.focus()

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        row = self._rows[event.option.id or ""]
        self.query_one("#detail", Plain).show(f"{row.description}\n{row.value}\nfrom: {row.origin}")

    def action_back(self) -> None:
        """Go back."""
        self.app.pop_screen()

    def action_theme(self) -> None:
        """Switch between light and dark."""
        self.ui.switch_theme()


def _line(row: SettingRow) -> Content:
    return Content.assemble(
        f"{shown_cell(row.name, 21)} ",
        (f"{shown_cell(row.value, 31)} ", "bold"),
        (shown_line(row.origin, 60), "$text-muted" if row.origin == "default" else "$text-accent"),
    )
