"""Copying out of a terminal: OSC 52 where it can work, a file where it cannot, and an honest word either way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# xterm's limit for one sequence in base64; others take more.
_MOST_BYTES = 74_000
_WITHOUT_OSC52 = {"linux", "dumb", "vt100", "vt220", "ansi"}


def fits_clipboard(text: str, environ: Mapping[str, str]) -> bool:
    """Say whether the terminal may take this text into the clipboard."""
    if environ.get("TERM", "dumb") in _WITHOUT_OSC52 or environ.get("TERM_PROGRAM") == "Apple_Terminal":
        return False
    return len(text.encode("utf-8")) <= _MOST_BYTES


def copy_note(what: str, characters: int, environ: Mapping[str, str]) -> str:
    """Say what was sent; whether a terminal took it, it does not tell."""
    note = f"{what}: {characters:,} characters sent to the terminal's clipboard (OSC 52)"
    if environ.get("TMUX"):
        note += "\ntmux takes them with `set -g set-clipboard on`"
    return f"{note}\nNot there? /copy file writes the last answer to a file"


def write_copy(folder: Path, text: str) -> str:
    """Write text where only the user reads it; return what to tell."""
    path = folder / "copied.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        return f"nothing was copied: {path} cannot be written: {exc.strerror}"
    return f"written to {path}; the terminal's clipboard was not used"
