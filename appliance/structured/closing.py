"""Find a short way to close a text from any state of its constraint, within a bounded search."""

from __future__ import annotations

from typing import Final

from appliance.structured.constraint import Constraint

_MAX_STEPS: Final = 1_500
_IMPROVE_STEPS: Final = 60
_MAX_BYTES: Final = 20_000
_OUTSIDE: Final = b'}],0123456789"[{ntf-: .eE+'
_INSIDE: Final = b'"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ -_.:/@+#'
_RARE_CHOICES: Final = 6


def find_closing(constraint: Constraint, max_tokens: int, *, is_json: bool) -> list[int] | None:
    """Return tokens that make the text whole, at most `max_tokens`; `None` when the search finds none.

    The search tries closers before anything else and goes back from dead ends. The first closing found is
    bettered for a bounded number of steps, so it is the shortest or close to it. The constraint stays as
    it is.
    """
    if constraint.can_stop:
        return []
    search = _Search(constraint.copy(), is_json=is_json)
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
    def __init__(self, constraint: Constraint, *, is_json: bool) -> None:
        self._constraint = constraint
        self._start = len(constraint.tokens)
        self._steps = 0
        self._best: list[int] | None = None
        self._best_bytes = _MAX_BYTES
        vocabulary = constraint.vocabulary
        self._outside = [t for t in (vocabulary.token_of(bytes([b])) for b in _OUTSIDE) if t is not None]
        self._inside = [t for t in (vocabulary.token_of(bytes([b])) for b in _INSIDE) if t is not None]
        self._is_json = is_json

    def run(self) -> list[int] | None:
        """Search depth first with a stack of untried choices."""
        limit = _MAX_STEPS
        trail: list[tuple[int, list[int]]] = []
        size = 0
        while self._steps < limit:
            self._steps += 1
            reached = self._advance()
            if reached:
                self._keep()
                limit = min(limit, self._steps + _IMPROVE_STEPS)
            choices = [] if reached or self._size() >= self._best_bytes - 1 else self._choices()
            if choices:
                trail.append((len(self._constraint.tokens), choices))
            if not self._take(trail):
                break
            size = max(size, len(trail))
        return self._best

    def _size(self) -> int:
        vocabulary = self._constraint.vocabulary
        return sum(len(vocabulary.token_bytes[token]) for token in self._constraint.tokens[self._start :])

    def _advance(self) -> bool:
        while not self._constraint.can_stop:
            forced = self._constraint.forced_tokens()
            if not forced:
                return False
            self._constraint.accept(forced)
        return True

    def _keep(self) -> None:
        size = self._size()
        if self._best is None or size < self._best_bytes:
            self._best = self._constraint.tokens[self._start :]
            self._best_bytes = size

    def _take(self, trail: list[tuple[int, list[int]]]) -> bool:
        while trail:
            position, choices = trail[-1]
            self._constraint.rollback(len(self._constraint.tokens) - position)
            if choices:
                self._constraint.accept([choices.pop(0)])
                return True
            trail.pop()
        return False

    def _choices(self) -> list[int]:
        preferred = self._inside if self._is_json and self._is_in_string() else self._outside
        if not self._is_json:
            preferred = self._inside + self._outside
        allowed = [token for token in preferred if self._constraint.allows(token)]
        if allowed:
            # A closer that fits beats every longer way.
            return allowed[:1] if self._is_closer(allowed[0]) else allowed[:_RARE_CHOICES]
        mask = self._constraint.mask()
        texts = self._constraint.vocabulary.token_bytes
        ends = self._constraint.vocabulary.special_token_ids
        candidates = [
            int(token) for token in mask.nonzero()[0] if int(token) not in ends and texts[int(token)]
        ]
        candidates.sort(key=lambda token: len(texts[token]))
        return candidates[:_RARE_CHOICES]

    def _is_closer(self, token: int) -> bool:
        return self._constraint.vocabulary.token_bytes[token] in (b"}", b"]")

    def _is_in_string(self) -> bool:
        text = self._constraint.vocabulary.decode(self._constraint.tokens)
        return is_inside_string(text)


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
