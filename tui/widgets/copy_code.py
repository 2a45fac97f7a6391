"""The wish to have a block of code."""

from __future__ import annotations

from textual.message import Message


class CodeWanted(Message):
    """The user wants this code copied."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code
