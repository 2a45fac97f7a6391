"""Split text into sentences as exact spans, for languages with and without spaces between words."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A full stop, question or exclamation mark with closing quotes, then white space; or the CJK marks, after
# which no space follows; or a blank line.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[”』」）’]*|\n[ \t]*(?=\n)")
_WORD_BEFORE = re.compile(r"[\w.]+$")
_ABBREVIATIONS = frozenset(
    re.split(
        " ",
        "mr mrs ms dr prof sr jr st vs etc e.g i.e cf fig figs eq ref refs no nos vol pp p art sec approx al "
        "inc ltd co corp dept est jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m "
        "ca bzw z.b d.h u.a usw nr abs str ggf inkl vgl s o.ä u.u i.d.r evtl zzgl",
    )
)
_LOOK_BACK = 16


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the sentences between two offsets, in order, without the white space around them."""
    stop = len(text) if end is None else end
    spans: list[tuple[int, int]] = []
    position = start
    for cut in _cuts(text, start, stop):
        _append_trimmed(spans, text, position, cut)
        position = cut
    _append_trimmed(spans, text, position, stop)
    return spans


def _cuts(text: str, start: int, end: int) -> Iterator[int]:
    for match in _END.finditer(text, start, end):
        if not match.group().startswith(".") or _ends_sentence(text, match.start(), match.end()):
            yield match.end()


def _ends_sentence(text: str, dot: int, after: int) -> bool:
    following = text[after : after + _LOOK_BACK].lstrip()
    if following and following[0].islower():
        return False
    word = _WORD_BEFORE.search(text, max(0, dot - _LOOK_BACK), dot)
    if word is None:
        return True
    before = word.group().lower()
    is_initial = len(before) == 1 and text[dot - 1].isupper()
    return not is_initial and before not in _ABBREVIATIONS


def _append_trimmed(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    lead = len(piece) - len(piece.lstrip())
    stripped = piece.strip()
    if stripped:
        spans.append((start + lead, start + lead + len(stripped)))
