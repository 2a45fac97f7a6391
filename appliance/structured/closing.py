"""Find a short way to close a text from any state of its constraint, within a bounded search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from appliance.structured.constraint import Constraint

_MAX_STEPS: Final = 600
_IMPROVE_STEPS: Final = 40
_MAX_TOKENS: Final = 20_000
_MAX_CHOICES: Final = 6
_FEW: Final = 2
_MANY: Final = 24
_MAX_ENDINGS: Final = 120
_ENDS_OF_NUMBERS: Final = (b"}", b"]", b",")
_STARTERS: Final = (b'"', b"[", b"{", b",", b":", b" ")
_CLOSERS: Final = (b"}", b"]")
_BACKSLASH: Final = 0x5C
_QUOTE: Final = 0x22
_NUMBER_BYTES: Final = frozenset(b"0123456789.-+eE")


def find_closing(
    constraint: Constraint, max_tokens: int, *, is_json: bool, examples: Sequence[str] = ()
) -> list[int] | None:
    """Return tokens that make the text whole, at most `max_tokens`; `None` when the search finds none.

    The search tries closers before anything else and goes back from dead ends. The first closing found is
    bettered for a bounded number of steps, so it is the shortest or close to it. `examples` are texts that
    satisfy patterns of the schema; their ends lead out of strings. The constraint stays as it is.
    """
    if constraint.can_stop:
        return []
    search = _Search(constraint.copy(), is_json=is_json, examples=examples)
    found = search.run()
    if found is None:
        return None
    compact = _retokenized(constraint, found)
    return compact if len(compact) <= max_tokens else None


def _retokenized(constraint: Constraint, tokens: list[int]) -> list[int]:
    vocabulary = constraint.vocabulary
    compact = vocabulary.tokenize(vocabulary.decode(tokens))
    if len(compact) < len(tokens) and constraint.count_allowed(compact) == len(compact):
        return compact
    return tokens


class _Search:
    """Depth first, with the untried choices of each branching on a stack."""

    def __init__(self, constraint: Constraint, *, is_json: bool, examples: Sequence[str]) -> None:
        self._constraint = constraint
        self._vocabulary = constraint.vocabulary
        self._is_json = is_json
        self._endings = _endings_of(examples) if is_json else ()
        self._path: list[int] = []
        self._begun = self._vocabulary.decode(constraint.tokens)
        self._strings = [_StringState.of(self._begun)]
        self._best: list[int] | None = None

    def run(self) -> list[int] | None:
        """Return the shortest closing met within the bounded number of steps."""
        trail: list[tuple[int, list[list[int]]]] = []
        limit = _MAX_STEPS
        steps = 0
        while steps < limit:
            steps += 1
            reached = self._advance()
            if reached and self._is_better():
                self._best = list(self._path)
                limit = min(limit, steps + _IMPROVE_STEPS)
            choices = self._choices() if not reached and self._is_better(1) else []
            if choices:
                trail.append((len(self._path), choices))
            if not self._take(trail):
                break
        return self._best

    def _is_better(self, more: int = 0) -> bool:
        return len(self._path) + more < (len(self._best) if self._best is not None else _MAX_TOKENS)

    def _advance(self) -> bool:
        while not self._constraint.can_stop:
            forced = self._constraint.forced_tokens()
            if not forced:
                return False
            self._push(forced)
        return True

    def _push(self, tokens: list[int]) -> None:
        self._constraint.accept(tokens)
        for token in tokens:
            self._path.append(token)
            self._strings.append(self._strings[-1].after(self._vocabulary.token_bytes[token]))

    def _take(self, trail: list[tuple[int, list[list[int]]]]) -> bool:
        while trail:
            position, choices = trail[-1]
            self._constraint.rollback(len(self._path) - position)
            del self._path[position:]
            del self._strings[position + 1 :]
            if choices:
                self._push(choices.pop(0))
                return True
            trail.pop()
        return False

    def _choices(self) -> list[list[int]]:
        state = self._strings[-1]
        is_inside = state.is_inside or not self._is_json
        pool = self._vocabulary.closing_pools[is_inside]
        allowed = [token for token in pool if self._constraint.allows(token)]
        if allowed and self._vocabulary.token_bytes[allowed[0]] in _CLOSERS:
            # A closer that fits beats every longer way.
            return [allowed[:1]]
        ranked = [[token] for token in self._by_promise(allowed, state)]
        if is_inside and self._is_json and not (allowed and self._is_quote(allowed[0])):
            return self._endings_that_fit() + (ranked or self._from_mask())
        return ranked or self._from_mask()

    def _is_quote(self, token: int) -> bool:
        return self._vocabulary.token_bytes[token] == b'"'

    def _by_promise(self, allowed: list[int], state: _StringState) -> list[int]:
        ends = [
            self._vocabulary.token_of(text) for text in ((b'"',) if state.is_inside else _ENDS_OF_NUMBERS)
        ]

        def rank(token: int) -> tuple[bool, int]:
            text = self._vocabulary.token_bytes[token]
            if text in _STARTERS and not state.is_inside and self._is_json:
                return False, 0
            closes = (state.is_inside and text == b'"') or any(
                end is not None and self._constraint.count_allowed((token, end)) == 2 for end in ends
            )
            # What a string repeats is likely a loop; every other way out of it comes first.
            return not closes, state.count(text)

        return sorted(allowed, key=rank)[:_MAX_CHOICES]

    def _endings_that_fit(self) -> list[list[int]]:
        fitting: list[list[int]] = []
        for ending in self._endings:
            tokens = self._vocabulary.tokenize(ending)
            if self._constraint.count_allowed(tokens) == len(tokens):
                fitting.append(tokens)
                if len(fitting) == _FEW:
                    break
        return fitting

    def _from_mask(self) -> list[list[int]]:
        texts, special = self._vocabulary.token_bytes, self._vocabulary.special_token_ids
        found = [int(token) for token in self._constraint.mask().nonzero()[0]]
        found = [
            token for token in found if texts[token] and token not in special and b'"' not in texts[token]
        ]
        # Where little is allowed, whole words lead on; where much is, single characters do.
        found.sort(key=lambda token: len(texts[token]), reverse=len(found) <= _MANY)
        return [[token] for token in found[: 4 * _MAX_CHOICES]]


def _endings_of(examples: Sequence[str]) -> tuple[str, ...]:
    endings = {
        json.dumps(text[start:], ensure_ascii=False)[1:] for text in examples for start in range(len(text))
    }
    return tuple(sorted(endings, key=len)[:_MAX_ENDINGS])


class _StringState:
    """Whether a JSON text ends inside a string, and what that string holds."""

    __slots__ = ("_is_escaped", "is_inside", "text")

    def __init__(self, *, is_inside: bool, is_escaped: bool, text: bytes) -> None:
        self.is_inside = is_inside
        self._is_escaped = is_escaped
        self.text = text

    @classmethod
    def of(cls, text: bytes) -> _StringState:
        """Return the state after a whole text."""
        is_inside = is_inside_string(text)
        tail = text[text.rfind(b'"') + 1 :] if is_inside else b""
        backslashes = len(tail) - len(tail.rstrip(b"\\"))
        return cls(is_inside=is_inside, is_escaped=backslashes % 2 == 1, text=tail)

    def after(self, data: bytes) -> _StringState:
        """Return the state after more bytes."""
        is_inside, is_escaped, text = self.is_inside, self._is_escaped, self.text
        for byte in data:
            if is_inside and is_escaped:
                is_escaped = False
            elif is_inside and byte == _BACKSLASH:
                is_escaped = True
            elif byte == _QUOTE:
                is_inside, text = not is_inside, b""
                continue
            is_part = is_inside or byte in _NUMBER_BYTES
            text = text + bytes((byte,)) if is_part else b""
        return _StringState(is_inside=is_inside, is_escaped=is_escaped, text=text)

    def count(self, text: bytes) -> int:
        """Return how often the string holds some bytes."""
        return self.text.count(text)


def is_inside_string(text: bytes) -> bool:
    """Whether a JSON text ends inside a string."""
    inside = False
    position = 0
    while (position := _next_quote(text, position, inside)) >= 0:
        inside = not inside
        position += 1
    return inside


def _next_quote(text: bytes, position: int, inside: bool) -> int:
    while True:
        found = text.find(b'"', position)
        if found < 0 or not inside:
            return found
        backslashes = 0
        while found - backslashes > position and text[found - backslashes - 1 : found - backslashes] == b"\\":
            backslashes += 1
        if backslashes % 2 == 0:
            return found
        position = found + 1
