"""The catalogue of models: what fits this machine, what is here, what is loaded."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from appliance.core.errors import ApplianceError
from tui.clean import shown_cell
from tui.rows import ModelRow
from tui.screens.dialogs import AskText
from tui.screens.working import WorkingScreen
from tui.widgets.plain import Plain
from tui.widgets.work_lines import WorkLines, human_bytes

_FITS = {
    "yes": ("fits", "$text-success"),
    "tight": ("tight", "$text-warning"),
    "no": ("no", "$text-error"),
    "likely": ("likely", "$text-success"),
    "unlikely": ("unlikely", "$text-error"),
    "unknown": ("?", "$text-muted"),
}
_HEADER = f"{'':2}{'NAME':<28}{'SIZE':>9}  {'QUANT':<7}{'CONTEXT':>8}  {'FITS':<9}{'STATE'}"


class ModelsScreen(WorkingScreen):
    """Models, and what can be done with the marked one."""

    CSS_PATH = "rows.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("enter", "use", "Use", priority=True),
        Binding("p", "pull", "Pull"),
        Binding("v", "verify", "Verify"),
        Binding("l", "load", "Load"),
        Binding("u", "unload", "Unload"),
        Binding("slash", "pull_other", "Other"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, ModelRow] = {}

    def compose(self) -> ComposeResult:
        yield Plain("Models · looking at the store…", classes="page-title")
        yield Plain(_HEADER, classes="columns")
        yield OptionList(classes="rows", markup=False)
        yield WorkLines()
        with VerticalScroll(classes="detail", can_focus=False):
            yield Plain(id="detail")
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        """List the models."""
        self.query_one(OptionList).focus()
        await self.refill()

    async def refill(self) -> None:
        """List the models as they are now."""
        try:
            rows = await self.session.models.rows()
        except ApplianceError as exc:
            self.tell(exc)
            return
        listed = self.query_one(OptionList)
        mark = listed.highlighted or 0
        self._rows = {row.name: row for row in rows}
        listed.clear_options()
        listed.add_options(Option(self._line(row), id=row.name) for row in rows)
        listed.highlighted = min(mark, len(rows) - 1) if rows else None
        here = sum(row.is_on_disk for row in rows)
        offline = " · offline: nothing is fetched" if self.session.is_offline else ""
        self.query_one(".page-title", Plain).show(
            f"Models · {here} here, {len(rows) - here} to fetch · {self.session.model} answers{offline}"
        )

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        if event.option.id:
            self._show_detail(event.option.id)

    def _show_detail(self, name: str) -> None:
        detail = self.query_one("#detail", Plain)
        self.fetch(
            self.session.models.describe(name),
            detail.show,
            group="detail",
            on_error=lambda error: detail.show(f"{error.message}\n{error.hint}"),
        )

    async def action_use(self) -> None:
        """Let the marked model answer."""
        row = self._marked()
        if row is None:
            return
        if not row.is_on_disk:
            self.notify_plain(f"{row.name} is not here yet · p fetches it", is_bad=True)
            return
        if not row.can_chat:
            self.notify_plain(f"{row.name} cannot chat", is_bad=True)
            return
        try:
            await self.ui.use_model(row.name)
        except ApplianceError as exc:
            self.tell(exc)
            return
        self.app.pop_screen()

    def action_pull(self) -> None:
        """Fetch the marked model."""
        if row := self._marked():
            self.start(f"fetching {row.name}", self.session.models.pull(row.name))

    async def action_pull_other(self) -> None:
        """Ask for the name of a model to fetch."""

        def pull(name: str | None) -> None:
            if name and name.strip():
                self.start(f"fetching {name.strip()}", self.session.models.pull(name.strip()))

        await self.app.push_screen(AskText("Fetch which model?", placeholder="hf.co/user/repo:Q4_K_M"), pull)

    def action_verify(self) -> None:
        """Hash the marked model again."""
        if row := self._marked():
            self.start(f"hashing {row.name}", self.session.models.verify(row.name))

    def action_load(self) -> None:
        """Load the marked model."""
        row = self._marked()
        if row is None:
            return
        name = row.name
        self.query_one(WorkLines).begin(f"loading {name}…")
        self.fetch(
            self.session.models.load(name),
            lambda _: self._loaded(f"✓ {name} is loaded"),
            group="load",
            on_error=self._not_loaded,
        )

    async def _not_loaded(self, error: ApplianceError) -> None:
        self.tell(error)
        await self._loaded(f"✗ {error.message}")

    async def _loaded(self, outcome: str) -> None:
        self.query_one(WorkLines).end(outcome)
        await self.refill()

    async def action_unload(self) -> None:
        """Unload the marked model."""
        row = self._marked()
        if row is None:
            return
        try:
            await self.session.models.unload(row.name)
        except ApplianceError as exc:
            self.tell(exc)
            return
        await self.refill()

    def _marked(self) -> ModelRow | None:
        option = self.query_one(OptionList).highlighted_option
        return self._rows.get(option.id or "") if option else None

    def _line(self, row: ModelRow) -> Content:
        label, style = _FITS[row.fit]
        state = "loaded" if row.is_loaded else "here" if row.is_on_disk else "to fetch"
        mark = "▸ " if row.name == self.session.model else "  "
        size = human_bytes(row.size_bytes) if row.size_bytes else "?"
        window = f"{row.context_window:,}" if row.context_window else "?"
        return Content.assemble(
            (mark, "$accent"),
            f"{shown_cell(row.name, 27)} {size:>9}  {shown_cell(row.quantisation or '?', 6)} {window:>8}  ",
            (f"{label:<9}", style),
            (state, "$text-muted" if not row.is_loaded else "$text-success"),
        )
