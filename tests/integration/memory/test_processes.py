"""Several processes with one store, as an open chat, an ingest and a short command are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from appliance.memory.byte_scan import scan_files
from appliance.memory.conversations import Conversations
from appliance.memory.journal import stop_unfinished_answers
from appliance.memory.schema import CONVERSATIONS
from appliance.storage.database import STORE_FILE, Database

ROOT = Path(__file__).resolve().parents[3]

WRITER = """
import sys
from pathlib import Path
from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS
from appliance.storage.database import Database
conversations = Conversations(Database(Path(sys.argv[1]), [CONVERSATIONS]))
for number in range(25):
    chat = conversations.chats.create()
    conversations.turns.add_user_turn(chat.id, f"{sys.argv[2]} {number}", parent_id=None)
"""

VISITOR = """
import sys
from pathlib import Path
from appliance.memory.schema import CONVERSATIONS
from appliance.storage.database import Database
Database(Path(sys.argv[1]), [CONVERSATIONS]).close()
"""

READER = """
import sqlite3, sys
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as connection:
    print(*(row[0] for row in connection.execute("SELECT text FROM turns")), sep="\\n")
"""

ANSWERER = """
import sys
from pathlib import Path
from appliance.core.clock import SystemClock
from appliance.core.events import TextDelta
from appliance.core.messages import UserMessage
from appliance.core.requests import SamplingParams
from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS
from appliance.memory.turns import SentRequest
from appliance.storage.database import Database
database = Database(Path(sys.argv[1]), [CONVERSATIONS])
conversations = Conversations(database)
lock = database.lock_writer("chat")
chat = conversations.chats.create()
question = conversations.turns.add_user_turn(chat.id, "hello", parent_id=None)
request = SentRequest(model="m", messages=(UserMessage(text="hello"),), sampling=SamplingParams())
answer = conversations.turns.begin_answer(chat.id, request, parent_id=question.id)
conversations.turns.journal(answer.id, SystemClock()).append(TextDelta(text="so far"))
print(answer.id, flush=True)
sys.stdin.read()
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_processes_that_start_and_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    writers = [start(WRITER, str(path), name) for name in ("a", "b", "c")]

    codes = [writer.wait(timeout=120) for writer in writers]
    for writer in writers:
        writer.communicate()

    conversations = Conversations(Database(path, [CONVERSATIONS]))
    titles = {chat.title for chat in conversations.chats.list_chats(limit=1000)}
    assert codes == [0, 0, 0]
    assert titles == {f"{name} {number}" for name in "abc" for number in range(25)}
    assert conversations.database.check_integrity() == ()


def test_an_answer_is_live_while_its_process_lives_and_stopped_once_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    writer = start(ANSWERER, str(path))
    assert writer.stdout is not None
    answer_id = writer.stdout.readline().strip()
    database = Database(path, [CONVERSATIONS])
    turns = Conversations(database).turns

    while_alive = (stop_unfinished_answers(database), turns.get(answer_id).state)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    before_repair = turns.get(answer_id)
    repaired = stop_unfinished_answers(database)

    assert while_alive == (0, "partial")
    assert (before_repair.state, before_repair.text) == ("stopped", "so far")
    assert repaired == 1
    assert turns.get(answer_id).text == "so far"
    database.lock_writer("serve").release()


def test_a_second_opening_in_one_process_keeps_the_log_from_other_processes(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    first = Conversations(Database(path, [CONVERSATIONS]))
    Database(path, [CONVERSATIONS]).close()
    assert _written_after_another_process_left(first, path) == ["kept"]


def test_a_search_of_the_file_keeps_the_log_from_other_processes(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    first = Conversations(Database(path, [CONVERSATIONS]))
    first.chats.create(title="zanzibar")
    files = [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]
    assert {hit.needle for hit in scan_files(files, ["zanzibar"])} == {"zanzibar"}
    assert _written_after_another_process_left(first, path) == ["kept"]


def _written_after_another_process_left(conversations: Conversations, path: Path) -> list[str]:
    """Return the questions that a new process reads, written here after another process came and went."""
    subprocess.run([sys.executable, "-c", VISITOR, str(path)], check=True, cwd=ROOT)
    chat = conversations.chats.create()
    conversations.turns.add_user_turn(chat.id, "kept", parent_id=None)
    listed = subprocess.run(
        [sys.executable, "-c", READER, str(path)], check=True, cwd=ROOT, capture_output=True, text=True
    )
    return listed.stdout.splitlines()
