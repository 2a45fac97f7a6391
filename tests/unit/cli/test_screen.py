"""A pipe gets the answer's exact text; a terminal gets it cleaned, with progress that goes away."""

import io

from appliance.cli.screen import AnswerScreen
from appliance.core.events import LoadProgress, PrefillProgress, ReasoningDelta, StreamEvent, TextDelta

HOSTILE = "red \x1b[31m\u202e text"


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(output: io.StringIO, notes: io.StringIO, *events: StreamEvent, **options: bool) -> None:
    screen = AnswerScreen(output, notes, **options)
    for event in events:
        screen.show(event)
    screen.finish()


def test_a_pipe_gets_exactly_the_text() -> None:
    output, notes = io.StringIO(), io.StringIO()

    shown(output, notes, LoadProgress(fraction=0.5), TextDelta(text=HOSTILE), TextDelta(text="."))

    assert (output.getvalue(), notes.getvalue()) == (HOSTILE + ".", "")


def test_a_terminal_gets_cleaned_text_and_a_last_line_break() -> None:
    output = Terminal()

    shown(output, io.StringIO(), TextDelta(text=HOSTILE))

    assert output.getvalue() == "red [31m text\n"


def test_a_line_break_is_not_doubled() -> None:
    output = Terminal()

    shown(output, io.StringIO(), TextDelta(text="done\n"))

    assert output.getvalue() == "done\n"


def test_progress_is_erased_before_the_first_text() -> None:
    notes = Terminal()
    long_prompt = PrefillProgress(processed_tokens=256, total_tokens=2000, cached_tokens=0)

    shown(io.StringIO(), notes, LoadProgress(fraction=0.5), long_prompt, TextDelta(text="x"))

    assert "50%" in notes.getvalue()
    assert "256 of 2000" in notes.getvalue()
    assert notes.getvalue().endswith("\r\x1b[K")


def test_a_short_prompt_shows_no_progress() -> None:
    notes = Terminal()

    shown(io.StringIO(), notes, PrefillProgress(processed_tokens=5, total_tokens=40, cached_tokens=0))

    assert notes.getvalue() == ""


def test_thinking_is_shown_beside_the_answer_only_when_asked() -> None:
    events = (ReasoningDelta(text="hm\x1b"), TextDelta(text="yes"))
    output, hidden, visible = io.StringIO(), io.StringIO(), io.StringIO()

    shown(output, hidden, *events)
    shown(io.StringIO(), visible, *events, shows_reasoning=True)

    assert (output.getvalue(), hidden.getvalue(), visible.getvalue()) == ("yes", "", "hm\n\n")
