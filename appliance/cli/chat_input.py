r"""Reads what the user says: lines of a terminal or a pipe, joined by a trailing `\` or between `\"\"\"`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from appliance.core.errors import InvalidRequestError

ReadLine = Callable[[str], str]
"""Reads one line without its line break after showing a prompt; raises EOFError at the end."""

FENCE = '"""'
_HISTORY_LINES = 1000


def read_message(read_line: ReadLine) -> str:
    """Read one message of one or more lines.

    Raises:
        EOFError: the input has ended and there is no message.
    """
    line = read_line(">>> ")
    if line.lstrip().startswith(FENCE):
        return _read_fenced(read_line, line.lstrip().removeprefix(FENCE))
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        with suppress(EOFError):
            lines.append(read_line("... "))
            continue
        break
    return "\n".join(lines)


def _read_fenced(read_line: ReadLine, line: str) -> str:
    lines: list[str] = []
    while FENCE not in line:
        lines.append(line)
        try:
            line = read_line("... ")
        except EOFError:
            return "\n".join(lines).strip("\n")
    lines.append(line.partition(FENCE)[0])
    return "\n".join(lines).strip("\n")


def read_piped_line(_prompt: str) -> str:
    """Read a line of standard input that is no terminal; no prompt is shown.

    Raises:
        InvalidRequestError: the line is not UTF-8.
    """
    data = sys.stdin.buffer.readline()
    if not data:
        raise EOFError
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("a line of standard input is not UTF-8 text") from exc


def read_terminal_line(prompt: str) -> str:
    """Read a line of the terminal, with editing where the platform has it."""
    if sys.stdout.isatty():
        return input(prompt)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def keep_history(path: Path) -> Callable[[], None]:
    """Load the lines typed before; return what saves them, for this user alone to read."""
    try:
        import readline
    except ImportError:
        return lambda: None
    readline.set_history_length(_HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(path)

    def save() -> None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            readline.write_history_file(path)

    return save
