"""A fresh store for each test, and a clock that only tests move."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.storage.database import STORE_FILE, Database


class StoppedClock:
    """Time stands still until a test moves it; sleepers wake when it passes their hour."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, duration_s: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self._now_s + duration_s, woken))
        await woken.wait()

    def pass_s(self, duration_s: float) -> None:
        self._now_s += duration_s
        for hour_s, woken in self._sleepers:
            if hour_s <= self._now_s:
                woken.set()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / STORE_FILE, [CONVERSATIONS, FACTS])
    yield opened
    opened.close()


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)
