"""The events of a conversation in motion: what is stored, folded and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.core.events import StreamEvent
from appliance.memory.turns import Summary, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSaved:
    """The user's turn is on disk."""

    turn: Turn
    kind: Literal["turn_saved"] = "turn_saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFolding:
    """A summary of earlier turns is being written, which takes the model a while."""

    turns: int
    kind: Literal["history_folding"] = "history_folding"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFolded:
    """The prompt does not hold the whole branch word for word; `text` is the marker to show."""

    text: str
    summary: Summary | None
    kind: Literal["history_folded"] = "history_folded"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBegun:
    """The answer's turn exists, marked partial."""

    turn: Turn
    kind: Literal["answer_begun"] = "answer_begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSaved:
    """The last event: the answer as it is on disk, with how it ended."""

    turn: Turn
    kind: Literal["answer_saved"] = "answer_saved"


ChatEvent = TurnSaved | HistoryFolding | HistoryFolded | AnswerBegun | StreamEvent | AnswerSaved
