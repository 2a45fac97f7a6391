"""From token bytes to text that can be shown: whole characters only, and stop strings never leak."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Utf8Stream:
    """Joins the bytes of tokens into text; the bytes of an unfinished character wait for the next token.

    Bytes that are no valid UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """Add the bytes of one token; return the characters that are whole now."""
        return self._decoder.decode(data)

    def flush(self) -> str:
        """End the stream; an unfinished character becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)


class StopFilter:
    """Ends the text before the first stop string; holds back what may turn out to be the start of one."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.is_stopped = False

    def push(self, text: str) -> str:
        """Add text; return what may be shown now."""
        if not self._stop or not text:
            return text
        text = self._held + text
        position = self._find_stop(text)
        if position >= 0:
            self.is_stopped = True
            self._held = ""
            return text[:position]
        keep = max(overlap(text, stop) for stop in self._stop)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """End the text; return what was held back."""
        held, self._held = self._held, ""
        return held

    def _find_stop(self, text: str) -> int:
        positions = [position for stop in self._stop if (position := text.find(stop)) >= 0]
        return min(positions, default=-1)


def overlap(text: str, target: str) -> int:
    """Length of the longest end of `text` that begins `target` without being all of it."""
    for length in range(min(len(target) - 1, len(text)), 0, -1):
        if text.endswith(target[:length]):
            return length
    return 0
