"""Faults while forgetting and while migrating: the same command again finishes, and the rest is intact."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.core.forgetting import ForgetSubject
from appliance.memory.byte_scan import files_below, scan_files
from appliance.memory.conversations import Conversations
from appliance.memory.forget import forget
from appliance.memory.forget_chats import ForgettableChats
from appliance.memory.forget_files import StoreFile
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.storage.backups import list_backups
from appliance.storage.database import STORE_FILE, Database
from appliance.storage.schema import Schema
from tests.failure.memory.fault_points import FAULTS, count_calls, run_with_fault

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which injects the faults, is missing"),
]

SAMPLED_POINTS = 12
TARGET = ForgetSubject(phrase="zanzibar")
NEXT_VERSION = Schema(
    feature="conversations",
    steps=(
        *CONVERSATIONS.steps,
        "ALTER TABLE turns ADD COLUMN mood TEXT; UPDATE turns SET mood = upper(text)",
    ),
)


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    database = Database(tmp_path / "seed" / STORE_FILE, [CONVERSATIONS, FACTS])
    conversations = Conversations(database)
    for number in range(15):
        chat = conversations.chats.create()
        conversations.turns.add_user_turn(chat.id, f"kept words {number} " * 20, parent_id=None)
        conversations.turns.add_user_turn(chat.id, f"zanzibar {number} " * 20, parent_id=None)
    database.close()
    return database.path


def do_forget(path: Path) -> bool:
    database = Database(path, [CONVERSATIONS, FACTS])
    is_clean = forget(TARGET, [ForgettableChats(database), StoreFile(database)]).is_clean
    database.close()
    return is_clean


def do_forget_nothing(path: Path) -> bool:
    database = Database(path, [NEXT_VERSION, FACTS])
    is_clean = forget(ForgetSubject(phrase="never said"), [StoreFile(database)]).is_clean
    database.close()
    return is_clean


def do_migrate(path: Path) -> bool:
    Database(path, [NEXT_VERSION, FACTS]).close()
    return True


def after(seed: Path, act: Callable[[Path], bool]) -> Callable[[Path], None]:
    def work(path: Path) -> None:
        shutil.copy(seed, path)
        act(path)

    return work


def stores_after_faults(folder: Path, work: Callable[[Path], None], fault: str, sampled: int) -> list[Path]:
    counts = count_calls(folder, work)
    points = [(call, position + 1) for call, number in sorted(counts.items()) for position in range(number)]
    chosen = points[:: max(1, len(points) // sampled)]
    return [store for point in chosen if (store := run_with_fault(folder, work, *point, fault)[0]).exists()]


def kept_texts(path: Path, schema: Schema) -> set[str]:
    conversations = Conversations(Database(path, [schema, FACTS]))
    assert conversations.database.check_integrity() == ()
    turns = (
        turn for chat in conversations.chats.list_chats() for turn in conversations.turns.all_turns(chat.id)
    )
    texts = {turn.text for turn in turns if "kept words" in turn.text}
    conversations.database.close()
    return texts


@pytest.mark.parametrize("fault", FAULTS)
def test_an_interrupted_forgetting_is_finished_by_the_same_command(
    fault: str, seed: Path, tmp_path: Path
) -> None:
    expected = kept_texts(seed, CONVERSATIONS)

    stores = stores_after_faults(tmp_path, after(seed, do_forget), fault, SAMPLED_POINTS)

    assert len(stores) >= SAMPLED_POINTS // 2
    whole = [store for store in stores if store.stat().st_size >= seed.stat().st_size // 2]
    assert [store for store in whole if not do_forget(store)] == []
    assert [store for store in whole if scan_files(files_below(store.parent), ["zanzibar"])] == []
    assert [store for store in whole if kept_texts(store, CONVERSATIONS) != expected] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_an_interrupted_migration_is_finished_at_the_next_start_with_nothing_lost(
    fault: str, seed: Path, tmp_path: Path
) -> None:
    expected = kept_texts(seed, CONVERSATIONS)

    stores = stores_after_faults(tmp_path, after(seed, do_migrate), fault, SAMPLED_POINTS)

    whole = [store for store in stores if store.stat().st_size >= seed.stat().st_size // 2]
    assert len(whole) >= SAMPLED_POINTS // 2
    assert [store for store in whole if kept_texts(store, NEXT_VERSION) != expected] == []
    assert all(list_backups(store) for store in whole)
    left_over = [path for store in whole for path in store.parent.rglob("*.partial*")]
    assert all(do_forget_nothing(store) for store in whole)
    assert [path for path in left_over if path.exists()] == []
