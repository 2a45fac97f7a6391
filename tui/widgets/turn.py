"""One turn of a conversation: who spoke, what, and for an answer how it ended."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from appliance.memory.turns import Branches, Turn
from tui.clean import shown, shown_line
from tui.rows import SourcedAnswer
from tui.widgets.plain import Plain, Styled
from tui.widgets.stretch import Stretch

_LONG_QUESTION_CHARACTERS = 4000
_STATES = {
    "stopped": ("stopped", "$text-warning"),
    "failed": ("failed", "$text-error"),
    "partial": ("writing", "$text-accent"),
    "forgotten": ("forgotten", "$text-muted"),
}
_UNFINISHED = "cut off when the program ended"


class TurnView(Stretch, can_focus=True):
    """A turn that can be chosen with Tab; its keys act on it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "do('copy')", "Copy"),
        Binding("y", "do('copy_code')", "Code"),
        Binding("e", "do('edit')", "Edit"),
        Binding("r", "do('regenerate')", "Again"),
        Binding("k", "do('continue')", "Continue"),
        Binding("left", "do('previous_branch')", "Branch", key_display="←→"),
        Binding("right", "do('next_branch')", "Branch", show=False),
        Binding("t", "toggle_reasoning", "Thinking", show=False),
        Binding("s", "do('sources')", "Sources"),
        Binding("i", "do('receipt')", "Receipt"),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    class Wanted(Message):
        """The user wants something done with a turn."""

        def __init__(self, turn: Turn, action: str) -> None:
            super().__init__()
            self.turn = turn
            self.action = action

    def __init__(
        self, turn: Turn, branches: Branches | None = None, sources: SourcedAnswer | None = None
    ) -> None:
        super().__init__(classes=f"turn {turn.role} stretches")
        self.turn = turn
        self._branches = branches
        self._sources = sources
        self._is_reasoning_open = False

    def compose(self) -> ComposeResult:
        yield Plain(classes="turn-head")
        yield Plain(classes="reasoning")
        if self.turn.role == "assistant":
            from tui.widgets.answer_text import AnswerText

            yield AnswerText(shown(self.turn.text))
        else:
            yield Plain(_folded_question(self.turn.text), classes="said")
        yield Plain(classes="sources-line")
        yield Plain(classes="failure")

    def on_mount(self) -> None:
        """Fill in head, reasoning and failure."""
        self.set_turn(self.turn, self._branches)
        self.set_sources(self._sources)

    @property
    def is_composed(self) -> bool:
        """Whether it is in the conversation, with all that it shows."""
        return self.is_attached and bool(self.children)

    def set_sources(self, sources: SourcedAnswer | None) -> None:
        """Show what the answer stands on."""
        self._sources = sources
        if not self.is_composed:
            return
        line = self.query_one(".sources-line", Plain)
        line.display = sources is not None
        if sources is not None:
            line.show_parts(_source_parts(sources))

    def set_turn(self, turn: Turn, branches: Branches | None = None) -> None:
        """Take the turn as it is now; its text must be what is shown already."""
        self.turn = turn
        self._branches = branches or self._branches
        if not self.is_composed:
            return
        self.query_one(".turn-head", Plain).show_parts(self._head())
        self._show_reasoning(turn.reasoning)
        failure = turn.answer.failure if turn.answer and turn.state == "failed" else None
        self.query_one(".failure", Plain).display = failure is not None
        if failure is not None:
            hint = f"\n{failure.hint}" if failure.hint else ""
            self.query_one(".failure", Plain).show(f"{failure.message}{hint}")

    def show_live_reasoning(self, text: str) -> None:
        """Show thinking while it comes."""
        self._show_reasoning(text, is_live=True)

    def action_toggle_reasoning(self) -> None:
        """Fold or unfold the thinking."""
        self._is_reasoning_open = not self._is_reasoning_open
        self._show_reasoning(self.turn.reasoning)

    def action_do(self, action: str) -> None:
        """Pass a wish on."""
        self.post_message(self.Wanted(self.turn, action))

    def _show_reasoning(self, text: str, *, is_live: bool = False) -> None:
        view = self.query_one(".reasoning", Plain)
        view.display = bool(text)
        if not text:
            return
        count = len(text.split())
        if self._is_reasoning_open:
            view.show(f"▾ thinking, {count} words (t folds it)\n{text}")
            return
        state = "thinking…" if is_live else "thought"
        view.show(f"▸ {state} {count} words (t unfolds it)")

    def _head(self) -> list[Styled]:
        turn = self.turn
        parts: list[Styled] = []
        match turn.role:
            case "user":
                parts.append(("You", "bold $text-accent"))
            case "assistant":
                parts.append((_name_of(turn), "bold $text-primary"))
            case "tool":
                parts.append((f"Tool {turn.tool_name}", "bold $text-secondary"))
            case "note":
                parts.append(("Note", "bold $text-muted"))
        if turn.state in _STATES:
            label, style = _STATES[turn.state]
            parts += [("  ", ""), (_UNFINISHED if _is_unfinished(turn) else label, style)]
            if turn.state == "stopped" and turn.text:
                parts += [(" ", ""), ("· k continues", "$text-muted")]
        if self._branches and len(self._branches.turn_ids) > 1:
            place = f"‹ {self._branches.shown + 1}/{len(self._branches.turn_ids)} ›"
            parts += [("  ", ""), (place, "$text-secondary")]
        if turn.answer and turn.answer.finish_reason == "length":
            parts += [("  ", ""), ("cut at the token limit · k continues", "$text-warning")]
        return parts


def _name_of(turn: Turn) -> str:
    if turn.answer is not None and turn.answer.model is not None:
        return turn.answer.model.name
    # Which model it was, its end would have told.
    return "Answer" if turn.state == "partial" else "Unfinished answer"


def _is_unfinished(turn: Turn) -> bool:
    return turn.state == "stopped" and turn.answer is not None and turn.answer.finish_reason is None


def _source_parts(sources: SourcedAnswer) -> list[Styled]:
    parts: list[Styled] = []
    for row in sources.sources:
        mark, style = ("✓", "$text-success") if row.is_verified else ("✗ UNVERIFIED", "bold $text-error")
        where = shown_line(f"{row.name} {row.place}".strip(), 40)
        parts += [(f"[{row.number}] ", "bold"), (f"{mark} ", style), (f"{where}  ", "$text-muted")]
    if any(note.startswith("UNVERIFIED") for note in sources.notes):
        parts.append(("some of it is UNVERIFIED  ", "bold $text-error"))
    return [*parts, ("s opens the sources" if sources.sources else "no sources", "$text-muted")]


def _folded_question(text: str) -> str:
    """Shorten the look of a very long question; all of it was sent, and copying it copies all."""
    if len(text) <= _LONG_QUESTION_CHARACTERS:
        return text
    half = _LONG_QUESTION_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters not shown here, all were sent …\n{text[-half:]}"
