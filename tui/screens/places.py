"""The names of the screens one can go to."""

from __future__ import annotations

from typing import Literal

Place = Literal["chat", "chats", "models", "library", "settings", "log", "help"]
