"""Frames between the appliance and its parser processes: one byte of kind, eight of length, the payload."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

FrameKind = Literal["hello", "progress", "picture", "recognised", "result", "refusal", "exited"]

_HEADER = struct.Struct("!BQ")
HEADER_BYTES = _HEADER.size
_CODES: dict[FrameKind, int] = {
    "hello": 1,
    "progress": 2,
    "picture": 3,
    "recognised": 4,
    "result": 5,
    "refusal": 6,
    "exited": 7,
}
_KINDS = {code: kind for kind, code in _CODES.items()}
_BLOCK_BYTES = 1 << 20


class BrokenFrameError(Exception):
    """The other side sent something that is no frame, or more than was allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message."""

    kind: FrameKind
    payload: bytes


def pack(kind: FrameKind, payload: bytes = b"") -> bytes:
    """Turn a message into bytes."""
    return _HEADER.pack(_CODES[kind], len(payload)) + payload


def write_frame(descriptor: int, kind: FrameKind, payload: bytes = b"") -> None:
    """Write a message whole; blocks until the other side has room."""
    view = memoryview(pack(kind, payload))
    while view:
        view = view[os.write(descriptor, view) :]


def read_frame(read: Callable[[int], bytes]) -> Frame | None:
    """Read one message and not a byte more; `None` when the other side is gone."""
    assembler = FrameAssembler(max_bytes=1 << 30)
    while True:
        block = read(min(assembler.missing_bytes, _BLOCK_BYTES))
        if not block:
            return None
        for frame in assembler.feed(block):
            return frame


class FrameAssembler:
    """Cuts a stream of bytes into frames; the sum of all payloads is bounded."""

    def __init__(self, max_bytes: int) -> None:
        self._remaining_bytes = max_bytes
        self._pending = bytearray()
        self._expected: tuple[FrameKind, int] | None = None

    @property
    def missing_bytes(self) -> int:
        """How many bytes the header or frame at hand still needs."""
        wanted = HEADER_BYTES if self._expected is None else self._expected[1]
        return max(1, wanted - len(self._pending))

    def feed(self, block: bytes) -> list[Frame]:
        """Take bytes and return the frames they complete.

        Raises:
            BrokenFrameError: an unknown kind, or more bytes than allowed.
        """
        self._pending += block
        frames: list[Frame] = []
        while True:
            if self._expected is None:
                if len(self._pending) < HEADER_BYTES:
                    return frames
                self._expected = self._take_header()
            kind, length = self._expected
            if len(self._pending) < length:
                return frames
            frames.append(Frame(kind=kind, payload=bytes(self._pending[:length])))
            del self._pending[:length]
            self._expected = None

    def _take_header(self) -> tuple[FrameKind, int]:
        code, length = _HEADER.unpack_from(self._pending)
        del self._pending[:HEADER_BYTES]
        kind = _KINDS.get(code)
        self._remaining_bytes -= length
        if kind is None or self._remaining_bytes < 0:
            raise BrokenFrameError(f"frame of kind {code} with {length} bytes")
        return kind, length
