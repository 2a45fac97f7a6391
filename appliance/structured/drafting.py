"""Guess the next tokens from what the prompt and the output say already; the constraint trims the guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from appliance.structured.closing import is_inside_string
from appliance.structured.constraint import Constraint
from appliance.structured.vocabulary import TokenVocabulary

_GRAM_SIZES: Final = (4, 3, 2)
_MAX_VALUE_CHARACTERS: Final = 200
_OPEN_KEY: Final = re.compile(rb'"((?:[^"\\]|\\.)*)": ("?)$')
_FIRST_LENGTH: Final = 4
_MAX_LENGTH: Final = 16


class Drafter:
    """Drafts for one sequence: continuations of repeated n-grams, and values the prompt gives for a key.

    A draft is only a guess: what is kept is decided by the model's own choice at each position.
    """

    def __init__(self, prompt_tokens: Sequence[int], vocabulary: TokenVocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokens = list(prompt_tokens)
        self._prompt_count = len(self._tokens)
        self._positions: dict[tuple[int, ...], int] = {}
        self._indexed = 0
        self._prompt_text = vocabulary.decode(self._tokens).decode("utf-8", errors="replace")
        self._length = _FIRST_LENGTH
        self._index_up_to(self._prompt_count)

    def learn(self, drafted: int, accepted: int) -> None:
        """Lengthen the drafts while they are accepted, shorten them when they are not."""
        if drafted == 0:
            return
        if accepted == drafted:
            self._length = min(_MAX_LENGTH, self._length * 2)
        elif accepted < drafted // 2:
            self._length = max(2, self._length // 2)

    def draft(self, constraint: Constraint, max_tokens: int) -> list[int]:
        """Return tokens that may follow and are likely to; an empty list when there is nothing to go by."""
        limit = min(max_tokens, self._length)
        if limit <= 0:
            return []
        self._follow(constraint.tokens)
        drafted: list[int] = []
        ahead = constraint.copy()
        while len(drafted) < limit and not ahead.is_complete:
            guess = self._guess(ahead)[: limit - len(drafted)]
            guess = guess[: ahead.count_allowed(guess)] if guess else []
            if not guess:
                break
            ahead.accept(guess)
            forced = ahead.forced_tokens()
            ahead.accept(forced)
            drafted += guess + forced
        return drafted[: limit + 4]

    def _guess(self, constraint: Constraint) -> list[int]:
        output = constraint.tokens
        return self._value_of_key(output) or self._repeated(output)

    def _repeated(self, output: list[int]) -> list[int]:
        recent = (self._tokens[self._prompt_count - 4 : self._prompt_count] + output)[-4:]
        for size in _GRAM_SIZES:
            if len(recent) < size:
                continue
            position = self._positions.get(tuple(recent[-size:]))
            if position is not None and position < len(self._tokens):
                return self._tokens[position : position + _MAX_LENGTH]
        return []

    def _value_of_key(self, output: list[int]) -> list[int]:
        tail = self._vocabulary.decode(output[-40:])
        found = _OPEN_KEY.search(tail)
        if found is None or (found.group(2) and not is_inside_string(self._vocabulary.decode(output))):
            return []
        key = found.group(1).decode("utf-8", errors="replace")
        value = self._stated_value(key)
        if not value:
            return []
        return self._vocabulary.tokenize(value + ('"' if found.group(2) else ""))

    def _stated_value(self, key: str) -> str:
        spelled = "[ _-]?".join(re.escape(word) for word in re.split(r"[ _-]+", key) if word)
        if not spelled:
            return ""
        value = rf"[\"']?([^\n;|\"']{{1,{_MAX_VALUE_CHARACTERS}}})"
        pattern = rf"(?im)(?<![\w\"]){spelled}[*\"']*\s*(?::|=|\bis\b)\s*{value}"
        found = re.search(pattern, self._prompt_text)
        return found.group(1).strip().rstrip(",.") if found else ""

    def _follow(self, output: list[int]) -> None:
        kept = self._tokens[self._prompt_count :]
        if kept != output[: len(kept)]:
            # A rollback: n-grams of what was dropped may stay in the index; they are only guesses.
            del self._tokens[self._prompt_count :]
            kept = []
            self._indexed = self._prompt_count
        self._tokens.extend(output[len(kept) :])
        self._index_up_to(len(self._tokens) - 1)

    def _index_up_to(self, end: int) -> None:
        for position in range(self._indexed, max(self._indexed, end)):
            for size in _GRAM_SIZES:
                if position + 1 >= size:
                    self._positions[tuple(self._tokens[position + 1 - size : position + 1])] = position + 1
        self._indexed = max(self._indexed, end)
