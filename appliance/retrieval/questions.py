"""Questions made fit for a search: follow-ups told in full, and other wordings of the same question."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.prompts import OperatorText, RenderedPrompt, UserText, shipped_prompts
from appliance.retrieval.follow_up import told_in_full

# Takes a prompt and returns what a model wrote; the model is the caller's.
Write = Callable[[RenderedPrompt], Awaitable[str]]

MAX_WORDINGS = 10
_LEADING_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])?\s*")
_ROLES = ("user:", "assistant:")
_MOST_TURNS = 6
_MOST_CHARACTERS_OF_TURN = 1_500
_LONGEST_QUESTION = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a conversation."""

    role: Literal["user", "assistant"]
    text: str


async def standalone_question(question: str, turns: Sequence[Turn], write: Write) -> str:
    """Return a follow-up question as it would be asked without the conversation; the question itself when none.

    What the model writes is taken only when it is one usable line; otherwise code carries over what the
    question leans on.
    """
    if not turns:
        return question
    recent = "\n".join(f"{turn.role}: {_shortened(turn.text)}" for turn in turns[-_MOST_TURNS:])
    prompt = shipped_prompts().get("standalone-question")
    written = await write(
        prompt.render(user={"conversation": UserText(recent), "question": UserText(question)})
    )
    line = _first_line(written)
    if 0 < len(line) <= _LONGEST_QUESTION and not line.lower().startswith(_ROLES):
        return line
    return told_in_full(question, [turn.text for turn in turns if turn.role == "user"])


async def other_wordings(question: str, write: Write, *, count: int) -> tuple[str, ...]:
    """Return up to `count` wordings of a question that a model wrote, each once and none like the question."""
    prompt = shipped_prompts().get("other-wordings")
    rendered = prompt.render(
        user={"question": UserText(question)}, operator={"count": OperatorText(str(count))}
    )
    usable: dict[str, str] = {_words(question): ""}
    for line in map(_bare, (await write(rendered)).splitlines()):
        if 0 < len(line) <= _LONGEST_QUESTION:
            usable.setdefault(_words(line), line)
    return tuple(line for line in usable.values() if line)[:count]


def _words(text: str) -> str:
    """What makes a wording another one: case and punctuation do not."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _first_line(text: str) -> str:
    return next((line for line in map(_bare, text.splitlines()) if line), "")


def _bare(line: str) -> str:
    return _LEADING_MARK.sub("", line).strip().strip('"')


def _shortened(text: str) -> str:
    # A prompt of a rewrite needs the subject of a turn, not all of it.
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_CHARACTERS_OF_TURN else plain[: _MOST_CHARACTERS_OF_TURN - 1] + "…"
