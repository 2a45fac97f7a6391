"""Which documents a question is about."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.context.wording import PROMPT_ID
from appliance.memory.turns import SentRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentScope:
    """Which documents a question is about; nothing named means all of them."""

    collections: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()


def is_from_documents(sent: SentRequest) -> bool:
    """Whether an answer was made from documents."""
    return sent.prompt_id == PROMPT_ID
