"""The one line that is always there: what fills the context window, what was reused, and how fast it went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from appliance.core.usage import Timings, Usage
from tui.clean import shown_line
from tui.receipt_text import Section

_BAR_CELLS = 20
_COLOURS = ("$secondary", "$primary", "$accent", "$success", "$warning", "$error")
_MARKS = "█▓▒░▚▞"
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterState:
    """What the meter shows. `phase` is what is happening now, empty when nothing is."""

    window_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    sections: tuple[Section, ...] = ()
    draft_characters: int = 0
    phase: str = ""


def used_sections(state: MeterState) -> list[Section]:
    """Return what the window holds: the receipt's sections where there are any, and the answer."""
    usage = state.usage
    parts = [section for section in state.sections if section.tokens > 0]
    if not parts:
        parts = [
            Section(name="reused", tokens=usage.cached_tokens),
            Section(name="new", tokens=usage.input_tokens - usage.cached_tokens),
        ]
    parts.append(Section(name="answer", tokens=usage.output_tokens))
    return [section for section in parts if section.tokens > 0]


class Meter(Static):
    """One line; a click or Ctrl+T opens the receipt."""

    class Opened(Message):
        """The user wants to see the receipt."""

    def __init__(self) -> None:
        super().__init__(id="meter", markup=False)
        self.state = MeterState()

    def on_mount(self) -> None:
        """Show the empty meter."""
        self.set_state(self.state)

    def on_click(self) -> None:
        """Open the receipt."""
        self.post_message(self.Opened())

    def on_resize(self) -> None:
        """Fit the line to the width."""
        self.set_state(self.state)

    def change(self, **changes: object) -> None:
        """Change some of what is shown."""
        self.set_state(replace(self.state, **changes))  # type: ignore[arg-type]

    def set_state(self, state: MeterState) -> None:
        """Show another state."""
        self.state = state
        # The line has a fixed height, so that nothing else must be laid out anew.
        self.update(self._line(state, self.size.width or 80), layout=False)

    def _line(self, state: MeterState, width: int) -> Content:
        sections = used_sections(state)
        used = sum(section.tokens for section in sections)
        parts: list[tuple[str, str]] = [(f"{used:,}", "bold")]
        if state.window_tokens:
            parts.append((f" / {state.window_tokens:,} tokens ", "$text-muted"))
            parts += _bar(sections, state.window_tokens)
        else:
            parts.append((" tokens ", "$text-muted"))
        parts += _speed(state, is_wide=width >= 100)
        if state.draft_characters:
            parts.append((f"  draft ≈{state.draft_characters // _CHARACTERS_PER_TOKEN + 1:,}", "$text-muted"))
        if state.phase:
            parts += [("  ", ""), (shown_line(state.phase, 60), "$text-accent")]
        if width >= 120:
            parts += _legend(sections)
        return Content.assemble(*parts)


def _bar(sections: list[Section], window_tokens: int) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    left = _BAR_CELLS
    for position, section in enumerate(sections):
        cells = min(left, max(1, round(section.tokens / window_tokens * _BAR_CELLS)))
        left -= cells
        index = position % len(_COLOURS)
        # Different marks, so that the sections differ without colour too.
        parts.append((_MARKS[index] * cells, _COLOURS[index]))
    return [*parts, ("·" * left, "$text-disabled")]


def _legend(sections: list[Section]) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for position, section in enumerate(sections):
        index = position % len(_COLOURS)
        label = f" {shown_line(section.name, 16)} {section.tokens:,}"
        parts += [("  ", ""), (_MARKS[index], _COLOURS[index]), (label, "$text-muted")]
    return parts


def _speed(state: MeterState, *, is_wide: bool) -> list[tuple[str, str]]:
    usage, timings = state.usage, state.timings
    parts: list[tuple[str, str]] = []
    if usage.input_tokens:
        share = usage.cached_tokens / usage.input_tokens
        parts.append((f"  {share:.0%} {'of the prompt reused' if is_wide else 'reused'}", "$text-success"))
    if tpot_s := timings.tpot_s(usage.output_tokens):
        parts.append((f"  {1 / tpot_s:,.1f} tok/s", ""))
    if timings.ttft_s:
        label = "first token" if is_wide else "ttft"
        parts.append((f"  {label} {timings.ttft_s:.2f} s", ""))
    return parts
