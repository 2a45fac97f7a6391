"""The texts that explain: the welcome, and the help page with every key and every command."""

from __future__ import annotations

from collections.abc import Mapping

from tui.commands import COMMANDS

_WELCOME = """Ask a question below. Nothing leaves unless you say so.

  Enter      send               Esc      stop the answer
  Ctrl+J     new line           Tab      go to a turn: edit, again, copy
  Ctrl+G     your editor        Ctrl+R   what you asked before
  {new_chat:<11}new chat           {palette:<9}every command
  {chats} chats · {library} library · {models} models · {settings} settings
  {log} log · {memory} memory · {extract} extract · {bench} bench · {help} help

  /          begins a command          @   asks a document or collection"""

_KEYS = (
    ("Everywhere", ""),
    ("{help}", "this help"),
    ("{chats} {library} {models}", "chats, library, models"),
    ("{settings} {log} {memory}", "settings, log, memory"),
    ("{extract} {bench}", "extract, bench"),
    ("{palette}", "every command, to search"),
    ("{new_chat}", "new chat"),
    ("{receipt}", "open the meter: the receipt of the last answer"),
    ("Ctrl+C", "copy what is selected, otherwise stop the answer"),
    ("{quit}", "leave"),
    ('A table [keys] in the configuration file gives them other keys, as in: memory = "alt+m"', ""),
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


def welcome(keys: Mapping[str, str]) -> str:
    """Return the text of an empty chat."""
    return _WELCOME.format_map(_named(keys))


def help_text(keys: Mapping[str, str]) -> str:
    """Return keys and commands as lines."""
    named = _named(keys)
    pairs = [(key.format_map(named), what) for key, what in _KEYS]
    lines = [f"\n{key}" if not what else f"  {key:<22}{what}" for key, what in pairs]
    commands = [f"  {command.usage:<28}{command.summary}" for command in COMMANDS]
    return "\n".join([*lines, "", "Commands", *commands])


def key_name(key: str) -> str:
    """Write a key for people: Ctrl+N, F5."""
    return "+".join(part.capitalize() for part in key.split("+"))


def _named(keys: Mapping[str, str]) -> dict[str, str]:
    return {action: key_name(key) for action, key in keys.items()}
