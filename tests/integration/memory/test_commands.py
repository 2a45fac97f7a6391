"""`appliance chats` and `appliance forget`, run as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.memory.turns import Chat
from appliance.storage.database import STORE_FILE, Database

ROOT = Path(__file__).resolve().parents[3]


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config.toml").write_text("")
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "APPLIANCE_CONFIG": str(folder / "config.toml"),
            "APPLIANCE_DATA_DIR": str(folder / "data"),
            "APPLIANCE_STATE_DIR": str(folder / "state"),
            "APPLIANCE_CACHE_DIR": str(folder / "cache"),
        }

    def run(self, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "appliance", *arguments],
            env=self._environment, input=answer, capture_output=True, text=True, timeout=120, check=False,
            cwd=self.folder,
        )  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def chat(shell: Shell) -> Chat:
    database = Database(shell.folder / "data" / STORE_FILE, [CONVERSATIONS, FACTS])
    conversations = Conversations(database)
    created = conversations.chats.create()
    conversations.turns.add_user_turn(created.id, "Tell me about zanzibar \x1b[2J please", parent_id=None)
    database.close()
    return created


def test_a_chat_is_listed_found_renamed_deleted_and_brought_back(shell: Shell, chat: Chat) -> None:
    listed = json.loads(shell.run("chats", "list", "--json").stdout)
    found = shell.run("chats", "search", "zanzibar")
    renamed = shell.run("chats", "rename", chat.id[:8], "Islands")
    deleted = shell.run("chats", "delete", "Islands")
    gone = json.loads(shell.run("chats", "list", "--json").stdout)
    undone = shell.run("chats", "undo")

    assert [each["id"] for each in listed] == [chat.id]
    assert chat.id[:8] in found.stdout
    assert "\x1b" not in found.stdout
    assert "Islands" in renamed.stdout
    assert deleted.returncode == 0
    assert gone == []
    assert "restored" in undone.stdout


def test_an_export_is_imported_elsewhere_and_no_file_is_overwritten(
    shell: Shell, chat: Chat, tmp_path: Path
) -> None:
    target = shell.folder / "export.json"
    shell.run("chats", "export", chat.id, "--format", "json", "--output", str(target))
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = Shell(other_folder)

    imported = json.loads(other.run("chats", "import", str(target), "--json").stdout)
    again = shell.run("chats", "export", chat.id, "--output", str(target))

    assert [(each["turn_count"], each["skipped"]) for each in imported] == [(1, "")]
    assert "zanzibar" in other.run("chats", "show", imported[0]["chat_id"][:8]).stdout
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_forget_asks_first_and_then_leaves_no_byte(shell: Shell, chat: Chat) -> None:
    prefixes = shell.folder / "state" / "prefixes"
    prefixes.mkdir(parents=True)
    (prefixes / "one.kv").write_bytes(b"saved")

    refused = shell.run("forget", "--subject", "zanzibar", answer="n\n")
    still_there = shell.run("chats", "search", "zanzibar").stdout
    forgotten = shell.run("forget", "--subject", "zanzibar", answer="y\n")

    assert refused.returncode != 0
    assert "zanzibar" in still_there
    assert forgotten.returncode == 0
    assert "Result: nothing remains" in forgotten.stdout
    assert "saved prefixes: 1 files" in forgotten.stdout
    everything = b"".join(path.read_bytes() for path in shell.folder.rglob("*") if path.is_file())
    assert b"zanzibar" not in everything
    assert list(prefixes.iterdir()) == []


def test_a_trace_in_a_log_is_reported_with_exit_code_one(shell: Shell, chat: Chat) -> None:
    (shell.folder / "state").mkdir()
    (shell.folder / "state" / "log.txt").write_text("asked about zanzibar")

    receipt = shell.run("forget", "--subject", "zanzibar", "--yes", "--json")

    assert receipt.returncode == 1
    assert [place.split(":")[0] for place in json.loads(receipt.stdout)["remains"]] == ["state and logs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chats", "show", "nothing"], "there is no chat 'nothing'"),
        (["chats", "undo"], "the trash is empty"),
        (["chats", "import", "missing.json"], "missing.json cannot be read"),
        (["chats", "export"], "name a chat, or use --all"),
        (["forget"], "name one of --chat, --document or --subject"),
        (["forget", "--subject", "x", "--yes"], "at least three characters"),
        (["forget", "--chat", "zzzz", "--yes"], "there is no chat 'zzzz'"),
    ],
)
def test_wrong_use_is_explained(arguments: list[str], message: str, shell: Shell) -> None:
    finished = shell.run(*arguments)

    assert finished.returncode != 0
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
