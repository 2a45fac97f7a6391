"""Server-sent events out of bytes that may be split anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_EVENT_BYTES = 8 << 20

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLongError(Exception):
    """An event exceeds what any server has a reason to send."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event: its name, empty when it has none, and its data."""

    name: str
    data: str


class EventStreamParser:
    """Turns bytes into events as the HTML standard defines them. Lines may end with CR, LF or both.

    Beyond the standard, a line `error: ...` is an event of that name (as llama-server writes it), and an
    event that the end of the stream leaves without its blank line counts.
    """

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0
        self._is_after_carriage_return = False
        self._is_first_line = True
        self._name = ""
        self._data: list[str] = []
        self._data_bytes = 0

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes; return the events that they complete.

        Raises:
            EventTooLongError: an event exceeds the bound.
        """
        if self._is_after_carriage_return and data:
            data = data.removeprefix(b"\n")
            self._is_after_carriage_return = False
        *lines, rest = _LINE_END.split(data)
        if lines:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished, self._unfinished_bytes = [], 0
            self._is_after_carriage_return = data.endswith(b"\r")
        if rest:
            self._unfinished.append(rest)
            self._unfinished_bytes += len(rest)
        self._check_length()
        return [event for event in map(self._take_line, lines) if event is not None]

    def finish(self) -> list[ServerSentEvent]:
        """End the stream; return the event that was left without its blank line."""
        last = b"".join(self._unfinished)
        self._unfinished = []
        events = (self._take_line(last) if last else None, self._take_line(b""))
        return [event for event in events if event is not None]

    def _take_line(self, line: bytes) -> ServerSentEvent | None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"event":
            self._name = text
        elif name in (b"data", b"error"):
            self._name = "error" if name == b"error" else self._name
            self._data.append(text)
            self._data_bytes += len(value)
            self._check_length()
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        name, data = self._name, self._data
        self._name, self._data, self._data_bytes = "", [], 0
        return ServerSentEvent(name, "\n".join(data)) if data else None

    def _check_length(self) -> None:
        if self._unfinished_bytes + self._data_bytes > LONGEST_EVENT_BYTES:
            raise EventTooLongError(f"an event has more than {LONGEST_EVENT_BYTES} bytes")
