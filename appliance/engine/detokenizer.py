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
    """Ends the text before the first stop string; holds back what may turn out to be the start of one.

    `before` is a text that was shown already and that this one goes on with: a stop string may begin in it.
    """

    def __init__(self, stop: Sequence[str], *, before: str = "") -> None:
        self._stop = tuple(stop)
        self._held = before[len(before) - self._kept(before) :]
        self._shown = len(self._held)
        self.is_stopped = False

    def push(self, text: str) -> str:
        """Add text; return what may be shown now."""
        if not self._stop or not text:
            return text
        text = self._held + text
        shown, self._shown = self._shown, 0
        position = self._find_stop(text)
        if position >= 0:
            self.is_stopped = True
            self._held = ""
            return text[shown:position]
        cut = len(text) - self._kept(text)
        self._held = text[cut:]
        self._shown = max(0, shown - cut)
        return text[shown:cut]

    def flush(self) -> str:
        """End the text; return what was held back."""
        held, self._held = self._held[self._shown :], ""
        return held

    def _kept(self, text: str) -> int:
        """Count the characters at the end that a stop string may begin with."""
        return max((overlap(text, stop) for stop in self._stop), default=0)

    def _find_stop(self, text: str) -> int:
        positions = [position for stop in self._stop if (position := text.find(stop)) >= 0]
        return min(positions, default=-1)


def overlap(text: str, target: str) -> int:
    """Length of the longest end of `text` that begins `target` without being all of it."""
    for length in range(min(len(target) - 1, len(text)), 0, -1):
        if text.endswith(target[:length]):
            return length
    return 0
