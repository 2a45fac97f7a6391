"""Where to go back to when a finished text fails the exact check, and what not to choose again there."""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.structured.json_text import JsonScan, Path, pointer_of
from appliance.structured.report import Problem
from appliance.structured.vocabulary import TokenVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Retreat:
    """Keep this many tokens; at that position the banned tokens may not be chosen."""

    keep: int
    banned: int


@dataclass(slots=True)
class RepairPlanner:
    """Plans retreats within a budget of tries.

    The first retreat gives up the last choice inside the value that failed; while the same value keeps
    failing, each next one goes back about twice as far. A prefix that failed is never tried again
    unchanged, because the token chosen after it is banned.
    """

    budget: int
    banned: dict[int, set[int]] = field(default_factory=dict)
    _failed: str = ""
    _streak: int = 0

    def plan(
        self,
        scan: JsonScan,
        problems: list[Problem],
        token_ends: list[int],
        tokens: list[int],
        is_choice: list[bool],
    ) -> Retreat | None:
        """Return where to go back to; `None` when the budget is spent or no choice is left.

        `token_ends` holds, for each token, the number of characters written up to its end.
        """
        if self.budget <= 0:
            return None
        self.budget -= 1
        start, end, name = _failed_span(scan, problems)
        self._streak = self._streak + 1 if name == self._failed else 0
        self._failed = name
        choices = [
            index
            for index, chosen in enumerate(is_choice)
            if chosen and (index == 0 or token_ends[index - 1] < end)
        ]
        if not choices:
            return None
        inside = [index for index in choices if token_ends[index] > start]
        back = (1 << self._streak) - 1
        position = inside[-1 - back] if back < len(inside) else (inside or choices)[0]
        return self.ban(position, tokens[position])

    def ban(self, position: int, token: int) -> Retreat:
        """Forbid a token at a position and forget what was forbidden after it."""
        self.banned = {at: tokens for at, tokens in self.banned.items() if at <= position}
        self.banned.setdefault(position, set()).add(token)
        return Retreat(keep=position, banned=token)


def _failed_span(scan: JsonScan, problems: list[Problem]) -> tuple[int, int, str]:
    if problems and problems[0].keyword == "duplicate key" and scan.duplicate_spans:
        start, end = scan.duplicate_spans[0]
        return start, end, f"duplicate key {start}"
    by_pointer: dict[str, Path] = {pointer_of(path): path for path in scan.spans}
    spans = [
        (scan.spans[by_pointer[problem.pointer]], problem)
        for problem in problems
        if problem.pointer in by_pointer
    ]
    if not spans:
        return 0, 1 << 60, "the whole text"
    (start, end), problem = min(spans, key=lambda item: (item[0][1] - item[0][0], item[0][0]))
    if problem.keyword == "uniqueItems":
        start, end = _second_of_equal_items(scan, by_pointer[problem.pointer])
    return start, end, f"{problem.pointer} {problem.keyword}"


def _second_of_equal_items(scan: JsonScan, path: Path) -> tuple[int, int]:
    value = scan.value
    for part in path:
        value = value[part]  # type: ignore[index]
    items = value if isinstance(value, list) else []
    for index, item in enumerate(items):
        if any(item == earlier and type(item) is type(earlier) for earlier in items[:index]):
            return scan.spans[*path, index]
    return scan.spans[path]


def token_ends_of(vocabulary: TokenVocabulary, tokens: list[int]) -> list[int]:
    """Return, for each token, how many characters of the text end with it."""
    ends: list[int] = []
    count = 0
    for token in tokens:
        # A byte that continues a character adds none.
        count += sum(1 for byte in vocabulary.token_bytes[token] if byte & 0xC0 != 0x80)
        ends.append(count)
    return ends
