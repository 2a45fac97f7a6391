"""Middle-out: what is kept of one long text is its beginning and its end, and the gap is said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CountText = Callable[[str], Awaitable[int]]


async def shorten_middle(text: str, limit_tokens: int, count: CountText) -> str:
    """Return the text if it fits, else its two ends with a mark between, or an empty text if not even that fits.

    The longest fitting version is searched by halving; words stay whole where the text has any.
    """
    if await count(text) <= limit_tokens:
        return text
    low, high = 0, len(text) - 1
    best = ""
    while low <= high:
        kept_characters = (low + high + 1) // 2
        candidate = _ends(text, kept_characters)
        if await count(candidate) <= limit_tokens:
            best, low = candidate, kept_characters + 1
        else:
            high = kept_characters - 1
    return best


def _ends(text: str, kept_characters: int) -> str:
    head_end = _border_before(text, (kept_characters + 1) // 2)
    tail_start = _border_after(text, len(text) - kept_characters // 2)
    left_out = tail_start - head_end
    return f"{text[:head_end].rstrip()}\n[… {left_out} characters left out …]\n{text[tail_start:].lstrip()}".strip()


def _border_before(text: str, position: int) -> int:
    """The end of the last whole word before a position; the position itself in text without spaces."""
    if position >= len(text) or text[position].isspace():
        return position
    border = max(text.rfind(space, max(0, position - 40), position) for space in " \n\t")
    return position if border < 0 else border


def _border_after(text: str, position: int) -> int:
    if position <= 0 or position >= len(text) or text[position - 1].isspace():
        return position
    found = [at for space in " \n\t" if (at := text.find(space, position, position + 40)) >= 0]
    return min(found, default=position - 1) + 1
