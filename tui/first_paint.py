"""Draws the frame of the interface with the standard library alone, while the rest is imported; and undoes it."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress

# Mouse reports, bracketed paste, the kitty keyboard, the alternate screen and the hidden cursor, all off.
RESTORE = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m"
)
_ENTER = "\x1b[?1049h\x1b[2J"
_INPUT_ROWS_FROM_BELOW = 4


def draw_often() -> None:
    """Let the interface, which is not imported yet, draw what a key changed at once: it waits up to two frames."""
    os.environ.setdefault("TEXTUAL_FPS", "120")


def paint_frame() -> None:
    """Paint title, input and the cursor in it; the interface draws over them when it is there."""
    if sys.__stderr__ is None:
        return
    width, height = shutil.get_terminal_size()
    top = max(2, height - _INPUT_ROWS_FROM_BELOW)
    line = "─" * max(0, width - 2)
    rows = {
        1: " appliance · starting…",
        top: f"╭{line}╮",
        top + 1: f"│{' ' * len(line)}│",
        top + 2: f"╰{line}╯",
    }
    drawn = "".join(f"\x1b[{row};1H{text}" for row, text in rows.items())
    # The interface writes to standard error too; what is typed meanwhile is echoed inside the input.
    sys.__stderr__.write(f"{_ENTER}{drawn}\x1b[{top + 1};3H")
    sys.__stderr__.flush()


def restore_terminal() -> None:
    """Undo what the interface asked of the terminal, in case it could not itself."""
    with suppress(OSError, ValueError):
        if sys.__stderr__ is not None:
            sys.__stderr__.write(RESTORE)
            sys.__stderr__.flush()
