"""What a running interface shows, as plain lines: the same text a terminal of that size would hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.app import App


def screen_text(app: App[None]) -> str:
    """Return the rows of the screen without styles, trailing spaces removed."""
    width, height = app.size
    lines: list[str] = []
    for strip in app.screen._compositor.render_strips():
        lines.append("".join(segment.text for segment in strip).rstrip())
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    return "\n".join(lines) + "\n"


async def until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Let the interface go on until a condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)
    assert condition(), what
