"""The texts that explain: the welcome, and the help page with every key and every command."""

from __future__ import annotations

from tui.commands import COMMANDS

WELCOME = """Ask a question below. Everything stays on this machine.

  Enter      send               Esc      stop the answer
  Ctrl+J     new line           Tab      go to a turn: edit, again, copy
  Ctrl+G     your editor        Ctrl+R   what you asked before
  Ctrl+N     new chat           Ctrl+P   every command
  F2 chats · F3 library · F4 models · F5 settings
  F6 log · F7 memory · F8 extract · F9 bench · F1 help

  /          begins a command          @   asks a document or collection"""

KEYS = (
    ("Everywhere", ""),
    ("F1", "this help"),
    ("F2 F3 F4", "chats, library, models"),
    ("F5 F6 F7 F8", "settings, log, memory, extract"),
    ("Ctrl+P", "every command, to search"),
    ("Ctrl+N", "new chat"),
    ("Ctrl+T", "open the meter: the receipt of the last answer"),
    ("Ctrl+C", "copy what is selected, otherwise stop the answer"),
    ("Ctrl+Q", "leave"),
    ("Writing", ""),
    ("Enter", "send"),
    ("Ctrl+J, Shift+Enter", "new line (Shift+Enter where the terminal tells it from Enter)"),
    ("Ctrl+G", "write in $VISUAL or $EDITOR"),
    ("Up, Down", "what you asked before, from the first and last line"),
    ("Ctrl+R", "search what you asked before"),
    ("/ and @", "a command; a document or collection the question is put to"),
    ("Tab", "complete a command or a name; otherwise go to the turns"),
    ("PgUp, PgDn", "scroll the conversation"),
    ("Ctrl+End", "go to the end and follow the answer"),
    ("Esc", "stop the answer (what was written is kept), leave an edit"),
    ("On a turn (Tab goes there)", ""),
    ("c, y", "copy the turn, copy a code block of it"),
    ("s", "the sources of an answer from documents"),
    ("e", "edit the question and send it on a new branch"),
    ("r", "answer again on a new branch"),
    ("k", "continue a stopped answer"),
    ("Left, Right", "the branch beside"),
    ("t, i", "unfold the thinking, open the receipt"),
)


def help_text() -> str:
    """Return keys and commands as lines."""
    lines = [f"\n{key}" if not what else f"  {key:<22}{what}" for key, what in KEYS]
    commands = [f"  {command.usage:<28}{command.summary}" for command in COMMANDS]
    return "\n".join([*lines, "", "Commands", *commands])
