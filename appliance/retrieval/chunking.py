"""Cut a parsed document into chunks: exact spans of its text, sized in the embedder's tokens.

Every visible character that is not white space lies in a chunk; hidden text and running headers and footers
lie in none. The text is first cut into atoms (sentences, list items, table rows, lines of code). Where chunks
begin is then the cheapest way through all atoms: each chunk costs 1, being far from full costs a little,
and each place to cut has a price by strategy, so that a paragraph's end is taken before a sentence's.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol

from appliance.core.errors import InvalidRequestError
from appliance.documents.model import Block, ParsedDocument, Table
from appliance.retrieval.atoms import Atom, atoms_of

ChunkStrategy = Literal["fixed", "recursive", "semantic", "document"]

CHUNKER_VERSION = "1"

_MIN_CHUNK_TOKENS = 16
_PREFIX_SHARE = 4  # the heading path may take a quarter of a chunk's tokens
_SLACK_PRICE = 0.5
_PRICE_IN_SENTENCE = 1.0
_CHARACTERS_PER_TOKEN = 16
_LOOK_BACK = 64
_LINE_BREAK_TOKENS = 1  # at most, between a prefix and its text; none where tokens add up
_SPACE = re.compile(r"\s")
# White space without the control characters, which tokenizers may drop instead of splitting there.
_WORD_BORDER = re.compile(r"[^\S\x0b\x0c\x1c-\x1f\x85]")


class TokenMeter(Protocol):
    """Measures text in an embedder's tokens; FastembedEmbedder is one."""

    @property
    def max_input_tokens(self) -> int:
        """Longest text that is embedded whole, special tokens included."""
        ...

    @property
    def adds_up(self) -> bool:
        """Whether a text that is cut at white space has as many tokens as its parts together."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, special tokens included."""
        ...

    def token_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Character span of each token of each text, special tokens left out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSettings:
    """How to cut. `max_tokens` 0 is as many as the embedder takes; special tokens and headings are counted.

    Raises:
        InvalidRequestError: a value is outside its range.
    """

    strategy: ChunkStrategy = "document"
    max_tokens: int = 0
    overlap_tokens: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens and self.max_tokens < _MIN_CHUNK_TOKENS:
            raise InvalidRequestError(
                f"max_tokens is {self.max_tokens}; at least {_MIN_CHUNK_TOKENS} is needed"
            )
        if self.overlap_tokens < 0 or (self.max_tokens and self.overlap_tokens > self.max_tokens // 2):
            raise InvalidRequestError(
                f"overlap_tokens is {self.overlap_tokens}; it must be between 0 and half of max_tokens"
            )

    @property
    def version(self) -> str:
        """Names the cutting rules; other rules give other chunks."""
        return f"{self.strategy}-{self.max_tokens}-{self.overlap_tokens}-v{CHUNKER_VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A passage: `text` is exactly the document's characters `start` to `end`.

    `heading_path` says where it stands; `prefix` (headings, a table's header row) goes before the text when
    it is embedded and is never shown as the document's words.
    """

    ordinal: int
    start: int
    end: int
    text: str
    heading_path: tuple[str, ...]
    prefix: str
    token_count: int

    @property
    def embedded_text(self) -> str:
        """What the embedder gets."""
        return _joined(self.prefix, self.text)


def chunk_document(
    document: ParsedDocument, meter: TokenMeter, settings: ChunkSettings | None = None
) -> tuple[Chunk, ...]:
    """Cut a document into chunks.

    Raises:
        InvalidRequestError: the settings ask for more tokens than the embedder takes.
    """
    cutter = _Cutter(document, meter, settings or ChunkSettings())
    return tuple(cutter.chunks())


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    first: Atom


class _Cutter:
    """Cuts one document."""

    def __init__(self, document: ParsedDocument, meter: TokenMeter, settings: ChunkSettings) -> None:
        self._document = document
        self._meter = meter
        self._settings = settings
        limit = settings.max_tokens or meter.max_input_tokens
        if limit > meter.max_input_tokens:
            raise InvalidRequestError(
                f"max_tokens is {limit}; the embedder takes at most {meter.max_input_tokens}",
                hint="ask for fewer tokens, or use an embedder with a longer input",
            )
        self._limit = limit - meter.count_tokens("")
        self._starts = _token_starts(document, meter)
        self._prefix_tokens: dict[str, int] = {"": 0}
        self._prefixes: dict[tuple[int, bool], str] = {}
        self._has_all_tokens = meter.adds_up and _has_space_between_blocks(document)

    def chunks(self) -> Iterator[Chunk]:
        """Cut every run of visible blocks."""
        pieces = [piece for run in _visible_runs(self._document) for piece in self._cut_run(run)]
        sizes = self._sizes(pieces)
        fitting = [
            part
            for piece, size in zip(pieces, sizes, strict=True)
            for part in ([piece] if size <= self._limit else self._halved(piece))
        ]
        for ordinal, piece in enumerate(fitting):
            yield self._chunk(ordinal, piece)

    def _cut_run(self, run: list[Block]) -> Iterator[_Piece]:
        strategy = self._settings.strategy
        if strategy == "fixed":
            yield from self._windows(run)
            return
        atoms = [
            piece for atom in atoms_of(self._document, run, strategy) for piece in self._small_enough(atom)
        ]
        firsts = self._cheapest_cuts(atoms)
        for first, after in pairwise([*firsts, len(atoms)]):
            begin = self._with_overlap(atoms, first, after) if first else first
            yield _Piece(atoms[begin].start, atoms[after - 1].end, atoms[first])

    def _windows(self, run: list[Block]) -> Iterator[_Piece]:
        whole = Atom(start=run[0].start, end=run[-1].end, cut_price=0.0, block=run[0])
        shared_tokens = self._settings.overlap_tokens
        previous: Atom | None = None
        for window in self._small_enough(whole):
            start = self._last_tokens(previous, shared_tokens) if previous else window.start
            yield _Piece(min(start, window.start), window.end, whole)
            previous = window

    def _last_tokens(self, atom: Atom, tokens: int) -> int:
        """Return where the last `tokens` tokens of an atom begin, or a word later."""
        if not tokens:
            return atom.end
        first = max(0, bisect_left(self._starts, atom.end) - tokens)
        border = max(self._starts[first], atom.end - tokens * _CHARACTERS_PER_TOKEN, atom.start)
        text = self._document.text
        if border == atom.start or text[border - 1].isspace():
            return border
        space = _SPACE.search(text, border, min(atom.end, border + _LOOK_BACK))
        return self._after_space(space.start(), atom.end) if space else border

    def _cheapest_cuts(self, atoms: list[Atom]) -> list[int]:
        """Return the index of the first atom of each chunk, by dynamic programming over all atoms."""
        best_cost = [0.0] + [float("inf")] * len(atoms)
        best_first = [0] * (len(atoms) + 1)
        tokens_before = [bisect_left(self._starts, atom.start) for atom in atoms]
        tokens_until = [bisect_left(self._starts, atom.end) for atom in atoms]
        for first, atom in enumerate(atoms):
            room = self._room(atom)
            price = best_cost[first] + 1.0 + (atom.cut_price if first else 0.0)
            for last in range(first, len(atoms)):
                counted = tokens_until[last] - tokens_before[first]
                tokens = max(counted, (atoms[last].end - atom.start) // _CHARACTERS_PER_TOKEN)
                if tokens > room and last > first:
                    break
                slack = max(0.0, 1.0 - tokens / room)
                cost = price + _SLACK_PRICE * slack * slack
                if cost < best_cost[last + 1]:
                    best_cost[last + 1] = cost
                    best_first[last + 1] = first
        firsts: list[int] = []
        position = len(atoms)
        while position > 0:
            position = best_first[position]
            firsts.append(position)
        return firsts[::-1]

    def _small_enough(self, atom: Atom) -> Iterator[Atom]:
        """Cut an atom that is longer than a chunk at word borders."""
        room = self._room(atom)
        start, price = atom.start, atom.cut_price
        while start < atom.end:
            end = self._word_border(start, atom.end, room)
            yield Atom(start=start, end=end, cut_price=price, block=atom.block, is_row=atom.is_row)
            start, price = self._after_space(end, atom.end), _PRICE_IN_SENTENCE

    def _word_border(self, start: int, end: int, room: int) -> int:
        """Return where a piece of `room` tokens from `start` ends, at white space if any is near."""
        if self._tokens(start, end) <= room:
            return end
        first = bisect_left(self._starts, start)
        border = self._starts[first + room] if first + room < len(self._starts) else end
        border = max(start + 1, min(border, start + room * _CHARACTERS_PER_TOKEN))
        text = self._document.text
        for position in range(border, max(start, border - _LOOK_BACK), -1):
            if text[position - 1].isspace():
                kept = len(text[start:position].rstrip())
                return start + kept if kept else border
        return border

    def _after_space(self, position: int, end: int) -> int:
        piece = self._document.text[position:end]
        return position + len(piece) - len(piece.lstrip())

    def _with_overlap(self, atoms: list[Atom], first: int, after: int) -> int:
        begin = first
        while begin > 0:
            candidate = atoms[begin - 1]
            overlap = self._tokens(candidate.start, atoms[first].start)
            whole = self._tokens(candidate.start, atoms[after - 1].end)
            if overlap > self._settings.overlap_tokens or whole > self._limit - self._prefix_size(
                atoms[first]
            ):
                break
            if candidate.block.parent != atoms[first].block.parent:
                break
            begin -= 1
        return begin

    def _room(self, atom: Atom) -> int:
        return max(1, self._limit - self._prefix_size(atom) - self._settings.overlap_tokens)

    def _tokens(self, start: int, end: int) -> int:
        # A run of characters without white space may be one unknown token, whatever its length.
        counted = bisect_left(self._starts, end) - bisect_left(self._starts, start)
        return max(counted, (end - start) // _CHARACTERS_PER_TOKEN)

    def _sizes(self, pieces: list[_Piece]) -> list[int]:
        """Return the tokens of each piece as it is embedded; those that are not known are counted."""
        sizes = [self._known_size(piece) for piece in pieces]
        counted = iter(
            self._exact_sizes([piece for piece, size in zip(pieces, sizes, strict=True) if size is None])
        )
        return [next(counted) if size is None else size for size in sizes]

    def _known_size(self, piece: _Piece) -> int | None:
        text = self._document.text
        around = (text[piece.start - 1 : piece.start] or " ", text[piece.end : piece.end + 1] or " ")
        if not self._has_all_tokens or not all(map(_WORD_BORDER.match, around)):
            return None
        counted = bisect_left(self._starts, piece.end) - bisect_left(self._starts, piece.start)
        prefix_tokens = max(0, self._prefix_size(piece.first) - _LINE_BREAK_TOKENS)
        return counted + prefix_tokens

    def _exact_sizes(self, pieces: list[_Piece]) -> list[int]:
        if not pieces:
            return []
        embedded = [_joined(self._prefix(piece.first), self._text_of(piece)) for piece in pieces]
        return [len(spans) for spans in self._meter.token_spans(embedded)]

    def _halved(self, piece: _Piece) -> list[_Piece]:
        """Halve a piece until the tokenizer agrees that it fits: tokens of parts need not add up."""
        if self._exact_sizes([piece])[0] <= self._limit or piece.end - piece.start < 2:
            return [piece]
        half = max(1, self._tokens(piece.start, piece.end) // 2)
        middle = self._word_border(piece.start, piece.end, half)
        if middle >= piece.end:
            middle = (piece.start + piece.end) // 2
        after = self._after_space(middle, piece.end)
        left = _Piece(piece.start, middle, piece.first)
        right = _Piece(after, piece.end, piece.first)
        return [*self._halved(left), *self._halved(right)]

    def _text_of(self, piece: _Piece) -> str:
        return self._document.text[piece.start : piece.end]

    def _chunk(self, ordinal: int, piece: _Piece) -> Chunk:
        return Chunk(
            ordinal=ordinal,
            start=piece.start,
            end=piece.end,
            text=self._text_of(piece),
            heading_path=self._heading_path(piece.first.block),
            prefix=self._prefix(piece.first),
            token_count=self._tokens(piece.start, piece.end),
        )

    def _heading_path(self, block: Block) -> tuple[str, ...]:
        if self._settings.strategy != "document":
            return ()
        return tuple(" ".join(title.split()) for title in self._document.heading_path(block))

    def _prefix(self, atom: Atom) -> str:
        of_block = id(atom.block), atom.is_row
        if of_block not in self._prefixes:
            self._prefixes[of_block] = self._fitting_prefix(atom)
        return self._prefixes[of_block]

    def _fitting_prefix(self, atom: Atom) -> str:
        path = self._heading_path(atom.block)
        lines = [" > ".join(path)] if path else []
        if atom.is_row and isinstance(atom.block, Table):
            lines += _header_lines(self._document, atom.block)
        prefix = "\n".join(lines)
        if self._size_of(prefix) <= self._limit // _PREFIX_SHARE:
            return prefix
        return path[-1] if path and self._size_of(path[-1]) <= self._limit // _PREFIX_SHARE else ""

    def _prefix_size(self, atom: Atom) -> int:
        return self._size_of(self._prefix(atom))

    def _size_of(self, prefix: str) -> int:
        if prefix not in self._prefix_tokens:
            self._prefix_tokens[prefix] = len(self._meter.token_spans([prefix])[0]) + _LINE_BREAK_TOKENS
        return self._prefix_tokens[prefix]


def _visible_runs(document: ParsedDocument) -> Iterator[list[Block]]:
    """Yield the longest rows of blocks with nothing hidden or repeated between them."""
    run: list[Block] = []
    for block in document.blocks:
        if block.hidden is None and block.kind != "furniture":
            run.append(block)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _has_space_between_blocks(document: ParsedDocument) -> bool:
    """Whether no word is part of two blocks or of none; what is between them is white space."""
    return all(
        (gap := document.text[before.end : after.start]).isspace() and _WORD_BORDER.search(gap)
        for run in _visible_runs(document)
        for before, after in pairwise(run)
    )


def _joined(prefix: str, text: str) -> str:
    return f"{prefix}\n{text}" if prefix else text


def _token_starts(document: ParsedDocument, meter: TokenMeter) -> list[int]:
    starts: list[int] = []
    blocks = list(document.visible_blocks())
    for block, spans in zip(
        blocks, meter.token_spans([document.text_of(block) for block in blocks]), strict=True
    ):
        starts += [block.start + start for start, _ in spans]
    starts.sort()
    return starts


def _header_lines(document: ParsedDocument, table: Table) -> list[str]:
    return [document.text[row.start : row.end] for row in table.rows[: table.header_rows]]
