"""Which documents a question is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentScope:
    """Which documents a question is about; nothing named means all of them."""

    collections: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
