"""Cuts an answer into parts that are laid out one by one, so that a word more costs what its own part costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

MOST_BLOCKS = 2
MOST_LINES = 40
MOST_CHARACTERS = 4_000
# Each would hide text of the answer: where a link leads, a definition, a tag, the name of a character.
_HIDING_RULES = ["link", "image", "autolink", "linkify", "html_inline", "entity", "html_block", "reference"]
# Before these nothing is still open: an item may yet follow a list, and a line a quote.
_BEGIN_ANEW = ("heading_open", "fence", "table_open", "hr")
_MAY_FOLLOW = ("paragraph_open",)
_STAY_OPEN = ("bullet_list_open", "ordered_list_open", "blockquote_open")
_SENTENCE_ENDS = (". ", "。", "! ", "? ", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some blocks, or a stretch of a long one. `opener` is what must stand before it to be read as what it is."""

    source: str
    opener: str = ""
    is_continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A place where a part may begin."""

    start: int
    opener: str = ""
    is_continued: bool = False


@cache
def plain_parser() -> MarkdownIt:
    """Return a parser of Markdown that leaves nothing out."""
    return _new_parser()


@cache
def _block_parser() -> MarkdownIt:
    return _new_parser().disable("inline")


def _new_parser() -> MarkdownIt:
    return MarkdownIt("gfm-like", {"html": False, "linkify": False}).disable(
        _HIDING_RULES, ignoreInvalid=True
    )


def parts_of(text: str, *, opener: str = "", is_continued: bool = False) -> list[Part]:
    """Return the parts of a text, in order; joined, their sources are the text."""
    whole = opener + text
    parts: list[Part] = []
    begun = _Cut(start=len(opener), opener=opener, is_continued=is_continued)
    for cut in _cuts(whole, after=len(opener)):
        parts.append(_part(whole[begun.start : cut.start], begun))
        begun = cut
    return [*parts, _part(whole[begun.start :], begun)]


def grown(last: Part, text: str) -> list[Part]:
    """Return what becomes of the last part when text follows it: itself, longer, and the parts after it."""
    return parts_of(last.source + text, opener=last.opener, is_continued=last.is_continued)


def _part(source: str, cut: _Cut) -> Part:
    return Part(source=source, opener=cut.opener, is_continued=cut.is_continued)


def _cuts(text: str, *, after: int) -> Iterator[_Cut]:
    lines = text.splitlines(keepends=True)
    offsets = [0, *accumulate(map(len, lines))]
    tokens = _block_parser().parse(text)
    blocks = 0
    before = ""
    for place, token in enumerate(tokens):
        if token.level != 0 or token.map is None or token.nesting < 0:
            continue
        start = offsets[token.map[0]]
        may_begin = token.type in _BEGIN_ANEW or (token.type in _MAY_FOLLOW and before not in _STAY_OPEN)
        if may_begin and blocks >= MOST_BLOCKS and start > after:
            yield _Cut(start=start)
            blocks = 0
        blocks += 1
        before = token.type
        begun = max(token.map[0], bisect_left(offsets, after))
        for cut in _cuts_inside(tokens, place, lines, offsets, begun):
            yield cut
            blocks = 1


def _cuts_inside(
    tokens: Sequence[Token], place: int, lines: Sequence[str], offsets: Sequence[int], begun: int
) -> Iterator[_Cut]:
    """Yield where a block that is long goes on in a part of its own, counted from the line where its part begins."""
    token = tokens[place]
    assert token.map is not None
    first, end = token.map
    if token.type == "paragraph_open":
        yield from _cuts_in_words("".join(lines[first:end]), offsets[first])
        return
    places: Sequence[int]
    match token.type:
        case "fence":
            places, opener = range(first + 1, end - 1), lines[first]
        case "table_open":
            places, opener = range(first + 2, end), "".join(lines[first : first + 2])
        case "bullet_list_open" | "ordered_list_open":
            places, opener = _items(tokens, place), ""
        case _:
            return
    for line in places:
        if line - begun >= MOST_LINES:
            yield _Cut(start=offsets[line], opener=opener, is_continued=True)
            begun = line


def _items(tokens: Sequence[Token], place: int) -> list[int]:
    """Return the lines where the items of a list begin."""
    lines: list[int] = []
    for token in tokens[place + 1 :]:
        if token.level == 0:
            break
        if token.level == 1 and token.type == "list_item_open" and token.map is not None:
            lines.append(token.map[0])
    return lines


def _cuts_in_words(text: str, start: int) -> Iterator[_Cut]:
    begun = 0
    while len(text) - begun > MOST_CHARACTERS:
        begun = _sentence_end(text, begun + MOST_CHARACTERS // 2, begun + MOST_CHARACTERS)
        yield _Cut(start=start + begun, is_continued=True)


def _sentence_end(text: str, first: int, last: int) -> int:
    """Return where to go on in another part: at a letter, for other characters could begin a block there."""
    for end in _SENTENCE_ENDS:
        found = text.rfind(end, first, last)
        if found >= 0 and text[found + len(end) : found + len(end) + 1].isalpha():
            return found + len(end)
    return last
