"""Tell a reasoning model's thinking from its answer in the stream of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.engine.detokenizer import overlap

KNOWN_TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<|think|>", "<|/think|>"))


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of text told apart; either may be empty."""

    reasoning: str
    answer: str


class ReasoningParser:
    """Splits text at the opening and closing tag of the thinking; the tags themselves are not shown.

    Thinking may only open at the start of the output. A tag that arrives in pieces is held back until it is whole.
    """

    def __init__(self, tags: tuple[str, str], *, is_open: bool) -> None:
        self._opening, self._closing = tags
        self._state: Literal["before", "open", "closed", "answer"] = "open" if is_open else "before"
        self._held = ""
        self._has_thought = is_open

    @property
    def is_thinking(self) -> bool:
        """Whether the next token belongs to the thinking."""
        return self._state == "open"

    @property
    def is_decided(self) -> bool:
        """Whether it is known if the output begins with thinking."""
        return self._state != "before"

    @property
    def has_thought(self) -> bool:
        """Whether there was thinking, over by now or not."""
        return self._has_thought

    def push(self, text: str) -> Split:
        """Add text; return what of it is thinking and what is answer, as far as that is known."""
        self._held += text
        reasoning = ""
        if self._state == "before":
            self._decide_opening()
        if self._state == "open":
            reasoning = self._take_reasoning()
        if self._state == "closed":
            self._held = self._held.lstrip()
            self._state = "answer" if self._held else "closed"
        if self._state != "answer":
            return Split(reasoning, "")
        answer, self._held = self._held, ""
        return Split(reasoning, answer)

    def flush(self) -> Split:
        """End the stream; return what was held back."""
        held, self._held = self._held, ""
        return Split(held, "") if self._state == "open" else Split("", held)

    def _decide_opening(self) -> None:
        start = self._held.lstrip()
        if start.startswith(self._opening):
            self._held = start[len(self._opening) :]
            self._state = "open"
            self._has_thought = True
        elif not self._opening.startswith(start):
            self._state = "answer"

    def _take_reasoning(self) -> str:
        position = self._held.find(self._closing)
        if position >= 0:
            reasoning = self._held[:position]
            self._held = self._held[position + len(self._closing) :]
            self._state = "closed"
            return reasoning
        cut = len(self._held) - overlap(self._held, self._closing)
        reasoning, self._held = self._held[:cut], self._held[cut:]
        return reasoning


def find_tags(template_source: str) -> tuple[str, str] | None:
    """Recognise the thinking tags that a chat template writes or strips itself."""
    for opening, closing in KNOWN_TAGS:
        if closing in template_source:
            return opening, closing
    return None
