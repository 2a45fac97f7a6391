"""Cuts an answer into parts that are laid out one by one, so that a word more costs what its own part costs."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

MOST_BLOCKS = 2
MOST_LINES = 40
MOST_CHARACTERS = 4_000
MOST_LEVELS = 200
# Each would hide text of the answer: where a link leads, a definition, a tag, the name of a character.
_HIDING_RULES = ["link", "image", "autolink", "linkify", "html_inline", "entity", "html_block", "reference"]
# These are what they are from their first characters on; others may yet become an item, or a line of a quote.
_BEGIN_AT_ONCE = ("heading_open", "fence", "table_open", "hr")
_STAY_OPEN = ("bullet_list_open", "ordered_list_open", "blockquote_open")
_SENTENCE_ENDS = (". ", "。", "! ", "? ", " ")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some blocks, or a stretch of a long one. `opener` is what must stand before it to be read as what it is.

    `joins` is what stood between it and the words before, and `first_number` that of its first item.
    """

    source: str = ""
    opener: str = ""
    is_continued: bool = False
    joins: str | None = None
    first_number: int | None = None


# Where a part may begin, and all of it but its source.
_Cut = tuple[int, Part]


@cache
def plain_parser() -> MarkdownIt:
    """Return a parser of Markdown that leaves nothing out."""
    return _new_parser()


@cache
def _block_parser() -> MarkdownIt:
    return _new_parser().disable("inline")


def _new_parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "maxNesting": MOST_LEVELS}
    return MarkdownIt("gfm-like", options).disable(_HIDING_RULES, ignoreInvalid=True)


def parts_of(text: str) -> list[Part]:
    """Return the parts of a text, in order; joined, their sources are the text."""
    return grown(Part(), text)


def grown(last: Part, text: str) -> list[Part]:
    """Return what becomes of the last part when text follows it: itself, longer, and the parts after it."""
    whole = last.opener + last.source + text
    parts: list[Part] = []
    start, begun = len(last.opener), last
    for end, following in _cuts(whole, last):
        parts.append(replace(begun, source=whole[start:end]))
        start, begun = end, following
    return [*parts, replace(begun, source=whole[start:])]


def code_blocks(text: str) -> list[str]:
    """Return the code in a text, block by block."""
    tokens = _block_parser().parse(text)
    return [token.content.removesuffix("\n") for token in tokens if token.type in ("fence", "code_block")]


def _cuts(text: str, part: Part) -> Iterator[_Cut]:
    after = len(part.opener)
    lines = _LINE.findall(text)
    offsets = [0, *accumulate(map(len, lines))]
    tokens = _block_parser().parse(text)
    blocks = 0
    before = ""
    for place, token in enumerate(tokens):
        if token.level != 0 or token.map is None or token.nesting < 0:
            continue
        start = offsets[token.map[0]]
        if blocks >= MOST_BLOCKS and start > after and _may_begin(token, before, lines):
            yield start, Part()
            blocks = 0
        blocks += 1
        begun = max(token.map[0], bisect_left(offsets, after))
        first_number = int(token.attrs.get("start", 1))
        if not before and part.first_number is not None:
            first_number = part.first_number
        before = token.type
        for cut in _cuts_inside(tokens, place, lines, offsets, begun, first_number):
            yield cut
            blocks = 1


def _may_begin(token: Token, before: str, lines: Sequence[str]) -> bool:
    """Whether a block surely begins there, whatever follows: Markdown is read line by line."""
    assert token.map is not None
    first = token.map[0]
    if lines[first].endswith("\n"):
        return True
    if lines[first - 1].strip():
        return False
    return token.type in _BEGIN_AT_ONCE or (token.type == "paragraph_open" and before not in _STAY_OPEN)


def _cuts_inside(
    tokens: Sequence[Token],
    place: int,
    lines: Sequence[str],
    offsets: Sequence[int],
    begun: int,
    first_number: int,
) -> Iterator[_Cut]:
    """Yield where a block that is long goes on in a part of its own, counted from the line where its part begins."""
    token = tokens[place]
    assert token.map is not None
    first, end = token.map
    if token.type == "paragraph_open":
        yield from _cuts_in_words("".join(lines[first:end]), offsets[first])
        return
    for line, part in _places_inside(tokens, place, lines, first_number):
        if line - begun >= MOST_LINES:
            yield offsets[line], part
            begun = line


def _places_inside(
    tokens: Sequence[Token], place: int, lines: Sequence[str], first_number: int
) -> Iterator[_Cut]:
    """Yield the lines at which a block could go on in another part."""
    token = tokens[place]
    assert token.map is not None
    first, end = token.map
    match token.type:
        case "fence":
            part = Part(opener=lines[first], is_continued=True)
            yield from ((line, part) for line in range(first + 1, end - 1))
        case "table_open":
            part = Part(opener="".join(lines[first : first + 2]), is_continued=True)
            yield from ((line, part) for line in range(first + 2, end))
        case "bullet_list_open":
            yield from ((line, Part(is_continued=True)) for line in _inner_lines(tokens, place))
        case "ordered_list_open":
            for number, line in enumerate(_inner_lines(tokens, place), first_number):
                yield line, Part(is_continued=True, first_number=number)
        case "blockquote_open":
            inner = _inner_lines(tokens, place)[1:]
            yield from ((line, Part(is_continued=True)) for line in inner if lines[line].endswith("\n"))
        case "code_block":
            for line in range(first + 1, end):
                if lines[line].strip() and lines[line - 1].strip():
                    yield line, Part(is_continued=True)


def _inner_lines(tokens: Sequence[Token], place: int) -> list[int]:
    """Return the lines where what a block consists of begins."""
    lines: list[int] = []
    # A slice would copy the rest of the answer for each block.
    for index in range(place + 1, len(tokens)):
        token = tokens[index]
        if token.level == 0:
            break
        if token.level == 1 and token.nesting >= 0 and token.map is not None:
            lines.append(token.map[0])
    return lines


def _cuts_in_words(text: str, start: int) -> Iterator[_Cut]:
    begun = 0
    while len(text) - begun > MOST_CHARACTERS:
        begun = _sentence_end(text, begun + MOST_CHARACTERS // 2, begun + MOST_CHARACTERS)
        joins = " " if text[begun - 1].isspace() else ""
        yield start + begun, Part(is_continued=True, joins=joins)


def _sentence_end(text: str, first: int, last: int) -> int:
    """Return where to go on in another part: at a letter, for other characters could begin a block there."""
    for end in _SENTENCE_ENDS:
        found = text.rfind(end, first, last)
        if found >= 0 and text[found + len(end) : found + len(end) + 1].isalpha():
            return found + len(end)
    return last
