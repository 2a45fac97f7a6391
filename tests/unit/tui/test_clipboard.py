"""Where copied text goes, and what the user is told."""

from pathlib import Path

from tui.clipboard import copy_note, fits_clipboard, write_copy


def test_a_terminal_that_cannot_take_text_is_not_asked() -> None:
    assert fits_clipboard("text", {"TERM": "xterm-256color"})
    assert not fits_clipboard("text", {"TERM": "linux"})
    assert not fits_clipboard("text", {"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"})
    assert not fits_clipboard("é" * 40_000, {"TERM": "xterm-256color"})


def test_inside_tmux_the_note_says_what_tmux_needs() -> None:
    assert "set-clipboard" in copy_note("answer", 5, {"TMUX": "/tmp/tmux"})
    assert "set-clipboard" not in copy_note("answer", 5, {})


def test_the_file_is_for_its_user_alone_and_named(tmp_path: Path) -> None:
    note = write_copy(tmp_path / "state", "hello")

    path = tmp_path / "state" / "copied.txt"
    assert str(path) in note
    assert path.read_text() == "hello"
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")

    assert write_copy(tmp_path / "state", "hello").startswith("nothing was copied")
