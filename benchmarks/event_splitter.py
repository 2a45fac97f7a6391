"""Splits the bytes of a stream of server-sent events into the data of each event."""

from __future__ import annotations

_LIMIT_BYTES = 16 << 20


class EventTooLargeError(ValueError):
    """An event is longer than any answer's."""


class EventSplitter:
    """Feed it bytes as they come; it returns the data of every event that is whole."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes.

        Raises:
            EventTooLargeError: an event does not end.
        """
        pending = self._pending + data
        if b"\r" in pending:
            pending = pending.replace(b"\r\n", b"\n")
        *blocks, self._pending = pending.split(b"\n\n")
        if len(self._pending) > _LIMIT_BYTES:
            raise EventTooLargeError(f"an event is longer than {_LIMIT_BYTES} bytes")
        return [event for block in blocks if (event := _data_of(block)) is not None]


def _data_of(block: bytes) -> bytes | None:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None
