"""Writes a count with its noun."""

from __future__ import annotations

_SINGULARS = {"summaries": "summary", "requests and receipts": "request or receipt"}


def counted(count: int, noun: str) -> str:
    """Return `1 passage`, `2 passages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def counted_things(count: int, plural: str) -> str:
    """Return `1 summary`, `2 summaries`: what has its name from many of it."""
    noun = _SINGULARS.get(plural, plural.removesuffix("s")) if count == 1 else plural
    return f"{count:,} {noun}"
