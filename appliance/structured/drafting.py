"""Guess the next tokens from what the prompt and the output say already; the constraint trims the guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from appliance.structured.closing import is_inside_string
from appliance.structured.constraint import Constraint
from appliance.structured.vocabulary import TokenVocabulary

_GRAM_SIZES: Final = (4, 3, 2)
_MAX_GRAM_TOKENS: Final = 8
_LEAST_COPIED_START: Final = 3
_MAX_COPIED_CHARACTERS: Final = 40
_COPY_ENDS: Final = re.compile(r"[\n;|\"{}]")
_MAX_VALUE_CHARACTERS: Final = 200
_MAX_FORCED: Final = 24
_TAIL_TOKENS: Final = 80
_WORD_ENDS: Final = re.compile(r"[ _-]+|(?<=[a-z0-9])(?=[A-Z])")
_OPEN_VALUE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":( ?)("?)([^"]*)$')
_STRING_ENDS: Final = ('",', '"}', '"]', '"')
_OTHER_ENDS: Final = (",", "}", "]", "")

# A guess that is refused costs its evaluation and saves nothing.
_WORTHWHILE_RATE: Final = 0.4
_TRIED_AGAIN_AFTER: Final = 8
_RATE_MEMORY: Final = 0.7

Source = Literal["value", "copy", "gram"]


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed tokens; where `is_forced`, the constraint allows no other token once those before it stand."""

    tokens: tuple[int, ...] = ()
    is_forced: tuple[bool, ...] = ()
    source: Source = "gram"


@dataclass(frozen=True, slots=True)
class _AnsweredKey:
    """The key whose value is being written: what stands behind its colon, and the value so far."""

    key: str
    space: str
    quote: str
    begun: str


@dataclass(slots=True)
class _Trust:
    """How often the guesses of one source were right of late."""

    rate: float
    passed_over: int = 0

    def length(self, longest: int) -> int:
        """How many tokens to guess now."""
        if self.rate >= _WORTHWHILE_RATE:
            return round(longest * self.rate)
        self.passed_over += 1
        return min(2, longest) if self.passed_over % _TRIED_AGAIN_AFTER == 0 else 0

    def learn(self, drafted: int, accepted: int) -> None:
        self.rate = _RATE_MEMORY * self.rate + (1 - _RATE_MEMORY) * accepted / drafted


class Drafter:
    """Drafts for one sequence: values the prompt states for a key, and continuations of repeated n-grams.

    A draft is only a guess: what is kept is decided by the model's own choice at each position.
    """

    def __init__(self, prompt_tokens: Sequence[int], vocabulary: TokenVocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokens = list(prompt_tokens)
        self._prompt_count = len(self._tokens)
        self._positions: dict[tuple[int, ...], int] = {}
        self._indexed = 0
        self._prompt_text = vocabulary.decode(self._tokens).decode("utf-8", errors="replace")
        self._stated: dict[str, str] = {}
        self._trust: dict[Source, _Trust] = {
            "value": _Trust(rate=1.0),
            "copy": _Trust(rate=0.6),
            "gram": _Trust(rate=0.6),
        }
        self._index_up_to(self._prompt_count)

    def learn(self, draft: Draft, accepted: int) -> None:
        """Take note of how many tokens of a draft were right."""
        if draft.tokens:
            self._trust[draft.source].learn(len(draft.tokens), accepted)

    def draft(self, constraint: Constraint, max_tokens: int) -> Draft:
        """Return tokens that may follow and are likely to; an empty draft when there is nothing to go by."""
        self._follow(constraint.tokens)
        guess, source = self._guess(constraint)
        guess = guess[: self._trust[source].length(min(max_tokens, len(guess)))] if guess else []
        guess = guess[: constraint.count_allowed(guess)] if guess else []
        if not guess:
            return Draft()
        ahead = constraint.copy()
        ahead.accept(guess)
        forced = [] if ahead.is_complete else ahead.forced_tokens()[:_MAX_FORCED]
        is_forced = (False,) * len(guess) + (True,) * len(forced)
        return Draft(tokens=(*guess, *forced), is_forced=is_forced, source=source)

    def _guess(self, constraint: Constraint) -> tuple[list[int], Source]:
        if answered := self._answered_key(constraint):
            if value := self._value_of_key(constraint, answered):
                return value, "value"
            if answered.quote and (copied := self._copied(answered.begun)):
                return copied, "copy"
        return self._repeated(constraint.tokens), "gram"

    def _repeated(self, output: list[int]) -> list[int]:
        recent = (self._tokens[self._prompt_count - 4 : self._prompt_count] + output)[-4:]
        for size in _GRAM_SIZES:
            if len(recent) < size:
                continue
            position = self._positions.get(tuple(recent[-size:]))
            if position is not None and position < len(self._tokens):
                return self._tokens[position : position + _MAX_GRAM_TOKENS]
        return []

    def _answered_key(self, constraint: Constraint) -> _AnsweredKey | None:
        written = self._vocabulary.decode(constraint.tokens[-_TAIL_TOKENS:]).decode("utf-8", errors="replace")
        found = _OPEN_VALUE.search(written)
        if found is None:
            return None
        key, space, quote, begun = found.groups()
        if quote and not is_inside_string(self._vocabulary.decode(constraint.tokens)):
            return None
        return _AnsweredKey(key, space, quote, begun)

    def _value_of_key(self, constraint: Constraint, answered: _AnsweredKey) -> list[int]:
        """Return what is left of the value that the prompt states for the key being answered."""
        value, begun = self._stated_value(answered.key), answered.begun
        if not value or not value.startswith(begun):
            return []
        if answered.quote:
            return self._fitting(constraint, begun, value, _STRING_ENDS)
        if begun:
            return self._fitting(constraint, begun, value, _OTHER_ENDS)
        lead = "" if answered.space else " "
        return self._fitting(constraint, "", f'{lead}"{value}', _STRING_ENDS) or self._fitting(
            constraint, "", f"{lead}{value}", _OTHER_ENDS
        )

    def _copied(self, begun: str) -> list[int]:
        """Return how the prompt goes on where it says, at the start of a word, what the string begins with."""
        if len(begun) < _LEAST_COPIED_START:
            return []
        found = re.search(rf"(?<!\w){re.escape(begun)}", self._prompt_text)
        if found is None:
            return []
        after = self._prompt_text[found.end() : found.end() + _MAX_COPIED_CHARACTERS]
        end = _COPY_ENDS.search(after)
        rest = self._rest(begun, begun + (after[: end.start()] if end else after))
        return rest if end else rest[:-1]  # the last token may be half of one

    def _fitting(self, constraint: Constraint, begun: str, value: str, ends: Sequence[str]) -> list[int]:
        """Return the tokens of the value and of the first ending that the constraint lets through whole."""
        for end in ends:
            tokens = self._rest(begun, value + end)
            if tokens and constraint.count_allowed(tokens) == len(tokens):
                return tokens
        return []

    def _rest(self, begun: str, whole: str) -> list[int]:
        """Tokenize what follows the beginning, as part of the whole where a token starts there."""
        tokens = self._vocabulary.tokenize(whole)
        length = 0
        target = len(begun.encode())
        for index, token in enumerate(tokens):
            if length == target:
                return tokens[index:]
            length += len(self._vocabulary.token_bytes[token])
            if length > target:
                break
        return self._vocabulary.tokenize(whole[len(begun) :])

    def _stated_value(self, key: str) -> str:
        if key not in self._stated:
            self._stated[key] = self._find_value(key)
        return self._stated[key]

    def _find_value(self, key: str) -> str:
        spelled = "[ _-]?".join(re.escape(word) for word in _WORD_ENDS.split(key) if word)
        if not spelled:
            return ""
        value = rf"[\"']?([^\n;|\"'{{\[]{{1,{_MAX_VALUE_CHARACTERS}}})"
        pattern = rf"(?im)(?<!\w){spelled}[*\"']*\s*(?::|=|\bis\b)\s*{value}"
        # The shape of the answer is often told before the record, with the same keys: the last one counts.
        stated: list[str] = re.findall(pattern, self._prompt_text)
        return stated[-1].strip().rstrip(",.") if stated else ""

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
