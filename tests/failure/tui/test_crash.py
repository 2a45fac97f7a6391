"""A bug in the interface ends it with one line, and the terminal is as it was."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from appliance.config import load_settings
from tests.conftest import REPOSITORY
from tests.pty_process import run_in_pty
from tests.screen_text import screen_text, until
from tui.app import ApplianceUI
from tui.run import LateSession

CHILD = """
import sys
import tui.run
from appliance.cli.main import run
from tui.app import ApplianceUI

class Broken(ApplianceUI):
    def on_ready(self):
        secret = "what was said"
        raise ZeroDivisionError("boom \\x1b]0;HOSTILE\\x07")

tui.run.ApplianceUI = Broken
sys.exit(run([]))
"""


def test_a_bug_is_told_in_a_line_without_what_was_said() -> None:
    code, written = run_in_pty([sys.executable, "-c", CHILD])
    text = written.decode("utf-8", "replace")
    after = text.rpartition("\x1b[?1049l")[2]

    assert code == 1
    assert "error: ZeroDivisionError: boom ]0;HOSTILE" in after
    assert "hint:" in after
    assert "what was said" not in text
    assert "\x1b]0;" not in text
    # The last word on the mouse, pasting and the cursor is that they are as before.
    assert text.rindex("\x1b[?1006l") > text.rindex("\x1b[?1006h")
    assert text.rindex("\x1b[?2004l") > text.rindex("\x1b[?2004h")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


async def test_a_store_that_cannot_be_opened_is_told_and_the_user_can_leave(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    app = ApplianceUI(LateSession(load_settings({"data_dir": in_the_way / "data"})))
    async with app.run_test(notifications=True) as pilot:
        await until(lambda: app.model_state == "cannot be used", "the failure is told")
        await pilot.pause()
        text = screen_text(app)
        app.clear_notifications()
        await pilot.press("f2", "f4", "ctrl+t", *"hello", "enter")
        await pilot.pause()
        asked = screen_text(app)
        await pilot.press("ctrl+q")

    assert "cannot be used" in text
    assert str(in_the_way)[:20] in text
    assert str(in_the_way)[:20] in asked
    assert "│ hello" in asked
    assert "opening the store" not in asked
    assert app.return_code == 0


def test_it_leaves_when_its_terminal_is_gone_and_no_signal_said_so(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "appliance"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=REPOSITORY,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "APPLIANCE_DATA_DIR": str(tmp_path)},
    )
    try:
        os.close(terminal)
        seen = b""
        while b"Ask something" not in seen:
            seen += os.read(controller, 65536)
        os.close(controller)

        assert child.wait(60) == 1
    finally:
        child.kill()
        child.wait()
