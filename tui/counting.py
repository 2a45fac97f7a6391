"""Writes a count with its noun."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return `1 passage`, `2 passages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
