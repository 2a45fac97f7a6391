"""The names of the screens one can go to."""

from __future__ import annotations

from typing import Literal

Place = Literal["chat", "chats", "library", "models", "settings", "log", "memory", "extract", "bench", "help"]
