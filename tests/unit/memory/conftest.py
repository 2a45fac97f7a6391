"""A fresh store for each test, and a clock that only tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.storage.database import STORE_FILE, Database
from tests.unit.memory.stopped_clock import StoppedClock


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
