"""A disk that is really full: a small file system in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.clock import SystemClock
from appliance.core.errors import StorageError
from appliance.core.events import TextDelta
from appliance.core.messages import UserMessage
from appliance.core.requests import SamplingParams
from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS
from appliance.memory.turns import SentRequest
from appliance.storage.database import STORE_FILE, Database


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_a_typed_error_and_what_was_said_is_read_and_deleted(small_disk: Path) -> None:
    conversations = Conversations(Database(small_disk / STORE_FILE, [CONVERSATIONS]))
    chat = conversations.chats.create()
    question = conversations.turns.add_user_turn(chat.id, "a question", parent_id=None)
    request = SentRequest(model="m", messages=(UserMessage(text="a question"),), sampling=SamplingParams())
    answer = conversations.turns.begin_answer(chat.id, request, parent_id=question.id)
    journal = conversations.turns.journal(answer.id, SystemClock())
    stored = 0

    def write_until_full() -> None:
        nonlocal stored
        while True:
            journal.append(TextDelta(text=f"{stored:09} "))
            stored += 1

    with pytest.raises(StorageError, match="full") as caught:
        write_until_full()

    assert "free some space" in caught.value.hint
    assert stored > 50
    assert conversations.turns.get(answer.id).text == "".join(f"{number:09} " for number in range(stored))
    assert conversations.database.check_integrity() == ()
