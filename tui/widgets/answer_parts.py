"""Cuts Markdown where no block is cut, so that a long answer is shown as parts that do not concern each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate

from markdown_it import MarkdownIt

MOST_BLOCKS = 4
# Each would hide text of the answer: where a link leads, a definition, a tag, the name of a character.
_HIDING_RULES = ["link", "image", "autolink", "linkify", "html_inline", "entity", "html_block", "reference"]
# Before these nothing is still open: an item may yet follow a list, and a line a quote.
_BEGIN_ANEW = ("heading_open", "fence")
_MAY_FOLLOW = ("paragraph_open",)
_STAY_OPEN = ("bullet_list_open", "ordered_list_open", "blockquote_open")


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


def parts_of(text: str, *, after: int = 0) -> list[str]:
    """Return the parts of a text, in order; joined they are the text. No part begins before `after`."""
    parts: list[str] = []
    begin = blocks = 0
    for start, may_begin in _blocks(text):
        if may_begin and blocks >= MOST_BLOCKS and start >= after:
            parts.append(text[begin:start])
            begin, blocks = start, 0
        blocks += 1
    return [*parts, text[begin:]]


def _blocks(text: str) -> Iterator[tuple[int, bool]]:
    """Yield where each block begins, and whether a part may begin with it."""
    offsets = [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]
    before = ""
    for token in _block_parser().parse(text):
        if token.level != 0 or token.map is None or token.nesting < 0:
            continue
        may_begin = token.type in _BEGIN_ANEW or (token.type in _MAY_FOLLOW and before not in _STAY_OPEN)
        yield offsets[token.map[0]], may_begin
        before = token.type
