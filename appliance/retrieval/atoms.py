"""The pieces chunks are built from, each with the price of beginning a chunk there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from appliance.documents.model import Block, ParsedDocument
from appliance.retrieval.sentences import sentence_spans

_LINE = re.compile(r"[^\n]*\S[^\n]*")

# Below -1 a section of about half a chunk or more gets a chunk of its own and shorter ones are joined.
_PRICE_AT_SECTION = (-1.5, -1.4, -1.3)
_PRICE_AFTER_HEADING = 3.0
_PRICE_AT_BLOCK = 0.05
_PRICE_AT_ITEM = 0.1
_PRICE_AT_BLANK_LINE = 0.2
_PRICE_AT_LINE = 0.4
_PRICE_AT_SENTENCE = 0.3
_PRICE_AT_ROW = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """A span cut only when it alone is longer than a chunk. `is_row`: a table's row below its header."""

    start: int
    end: int
    cut_price: float
    block: Block
    is_row: bool = False


def atoms_of(
    document: ParsedDocument, run: list[Block], strategy: Literal["recursive", "semantic", "document"]
) -> list[Atom]:
    """Cut a run of neighbouring blocks into atoms, as the strategy sees the text."""
    match strategy:
        case "recursive":
            return [atom for block in run for atom in _by_separators(document.text, block)]
        case "semantic":
            return [atom for block in run for atom in _by_sentences(document.text, block, _PRICE_AT_BLOCK)]
        case "document":
            return list(_by_structure(document, run))
        case _:
            assert_never(strategy)


def _by_separators(text: str, block: Block) -> Iterator[Atom]:
    price = _PRICE_AT_BLOCK
    for line in _LINE.finditer(text, block.start, block.end):
        for start, end in sentence_spans(text, line.start(), line.end()):
            yield Atom(start=start, end=end, cut_price=price, block=block)
            price = _PRICE_AT_SENTENCE + 0.1
        price = _PRICE_AT_SENTENCE


def _by_sentences(text: str, block: Block, first_price: float) -> Iterator[Atom]:
    price = first_price
    for start, end in sentence_spans(text, block.start, block.end):
        yield Atom(start=start, end=end, cut_price=price, block=block)
        price = _PRICE_AT_SENTENCE


def _by_structure(document: ParsedDocument, run: list[Block]) -> Iterator[Atom]:
    previous: Block | None = None
    for block in run:
        yield from _by_kind(document.text, block, _price_between(previous, block))
        previous = block


def _price_between(previous: Block | None, block: Block) -> float:
    if previous is not None and previous.kind == "heading":
        return _PRICE_AFTER_HEADING
    if block.kind == "heading":
        return _PRICE_AT_SECTION[min(block.level, len(_PRICE_AT_SECTION)) - 1]
    if previous is not None and previous.kind == block.kind == "list_item":
        return _PRICE_AT_ITEM
    return _PRICE_AT_BLOCK


def _by_kind(text: str, block: Block, first_price: float) -> Iterator[Atom]:
    match block.kind:
        case "heading":
            yield Atom(start=block.start, end=block.end, cut_price=first_price, block=block)
        case "paragraph" | "list_item" | "furniture":
            yield from _by_sentences(text, block, first_price)
        case "code":
            yield from _by_lines(text, block, first_price)
        case "table":
            for number, row in enumerate(block.rows):
                if text[row.start : row.end].strip():
                    yield Atom(
                        start=row.start,
                        end=row.end,
                        cut_price=_PRICE_AT_ROW if number else first_price,
                        block=block,
                        is_row=number >= block.header_rows,
                    )
        case _:
            assert_never(block)


def _by_lines(text: str, block: Block, first_price: float) -> Iterator[Atom]:
    price = first_price
    position = block.start
    for line in _LINE.finditer(text, block.start, block.end):
        is_after_blank = text.count("\n", position, line.start()) > 1
        if position > block.start:
            price = _PRICE_AT_BLANK_LINE if is_after_blank else _PRICE_AT_LINE
        yield Atom(start=line.start(), end=line.end(), cut_price=price, block=block)
        position = line.end()
