"""Runs the program with an event loop that notes how late it is: `python -m benchmarks.screens.probe FILE`."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
import time
from pathlib import Path

BEAT_S = 0.01


class LateLoop(asyncio.SelectorEventLoop):
    """Wakes every ten milliseconds and notes how much later it was."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[tuple[float, float]] = []
        self._due_s = time.perf_counter() + BEAT_S
        self.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        now_s = time.perf_counter()
        self.beats.append((now_s, now_s - self._due_s))
        self._due_s = now_s + BEAT_S
        self.call_later(BEAT_S, self._beat)


def main() -> None:
    """Run the program; write the moments and delays when it ends."""
    file = Path(sys.argv[1])
    loop = LateLoop()
    policy = asyncio.get_event_loop_policy()
    policy.new_event_loop = lambda: loop  # type: ignore[method-assign]
    asyncio.set_event_loop(loop)
    sys.argv = ["appliance"]
    try:
        runpy.run_module("appliance", run_name="__main__")
    finally:
        file.write_text(json.dumps(loop.beats), encoding="utf-8")


if __name__ == "__main__":
    main()
