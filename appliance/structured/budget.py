"""Watch the token budget of one sequence, so that its text can always be closed within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from appliance.structured.closing import find_closing
from appliance.structured.constraint import Constraint

_MARGIN: Final = 32
_MAX_PLACES: Final = 24
_LONGEST_GAP: Final = 16


class ClosingWatch:
    """Knows up to which token the text can be closed, and looks again the sooner the less room is left."""

    def __init__(self, *, max_tokens: int, is_json: bool, examples: Sequence[str] = ()) -> None:
        self._examples = examples
        self._max_tokens = max_tokens
        self._is_json = is_json
        self._next_look = 0
        self._reserve = _MARGIN
        self.safe_tokens = 0

    def fits_from_start(self, shortest: Sequence[int] | None) -> bool:
        """Whether the shortest text fits the budget."""
        if shortest is None or len(shortest) > self._max_tokens:
            return False
        self._reserve = _MARGIN + len(shortest)
        self._plan_next_look(0, len(shortest))
        return True

    def go_back(self, written: int) -> None:
        """Look again at the next token; what was known beyond is forgotten."""
        self._next_look = 0
        self.safe_tokens = min(self.safe_tokens, written)

    def note_forced(self, written: int, count: int) -> None:
        """What must follow a place to close from leads to another one, while there is room to spare."""
        if self.safe_tokens == written and self._max_tokens - written >= self._reserve:
            self.safe_tokens = written + count

    def still_fits(self, constraint: Constraint) -> bool:
        """Whether the text can be closed within the budget; looks only when it might not."""
        written = len(constraint.tokens)
        if written < self._next_look:
            return True
        closing = find_closing(
            constraint, self._max_tokens - written, is_json=self._is_json, examples=self._examples
        )
        if closing is None or written + len(closing) > self._max_tokens:
            return False
        if written == self._max_tokens:
            return constraint.is_complete
        self.safe_tokens = written
        self._plan_next_look(written, len(closing))
        return True

    def closing_from(self, constraint: Constraint) -> list[int] | None:
        """Return a closing that fits from here."""
        return find_closing(
            constraint,
            self._max_tokens - len(constraint.tokens),
            is_json=self._is_json,
            examples=self._examples,
        )

    def places_to_close(self, newest: int, is_choice: Sequence[bool], settled: int) -> Iterator[int]:
        """Yield how many tokens to keep: the newest place first, then ever farther back."""
        yield newest
        back = 1
        places = [index for index in range(newest) if is_choice[index] and index >= settled]
        for _ in range(_MAX_PLACES):
            if back > len(places):
                break
            yield places[-back]
            back += max(1, back // 2)
        yield settled

    def _plan_next_look(self, written: int, closing_tokens: int) -> None:
        spare = self._max_tokens - written - closing_tokens - self._reserve
        self._next_look = written + min(_LONGEST_GAP, max(1, spare // 2))
