"""Forgetting a chat from the command line takes the traces of its answers along."""

import json
from pathlib import Path

import pytest

from appliance.core.clock import SystemClock
from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.storage.database import STORE_FILE, Database
from appliance.telemetry import Telemetry
from appliance.telemetry.gen_ai import CHAT_ATTRIBUTE
from appliance.telemetry.metrics import Counter
from appliance.telemetry.trace_store import TRACES_FILE, TraceStore
from appliance.telemetry.writer import SpanWriter
from tests.conftest import RunCli


@pytest.fixture
def chat_ids(tmp_path: Path) -> list[str]:
    database = Database(tmp_path / "data" / STORE_FILE, [CONVERSATIONS, FACTS])
    created = [Conversations(database).chats.create().id for _ in range(2)]
    database.close()
    return created


def test_a_chat_is_forgotten_with_its_traces(run_cli: RunCli, tmp_path: Path, chat_ids: list[str]) -> None:
    store = tmp_path / "state" / TRACES_FILE
    writer = SpanWriter([lambda: TraceStore(store)], Counter("dropped", "", ()))
    telemetry = Telemetry(SystemClock(), sink=writer)
    for chat_id in chat_ids:
        with telemetry.span("chat", {CHAT_ATTRIBUTE: chat_id}) as span:
            span.child("attempt").end()
    writer.close()
    folders = ("--set", f"data_dir={tmp_path / 'data'}", "--set", f"state_dir={tmp_path / 'state'}")

    forgotten = run_cli(*folders, "forget", "--chat", chat_ids[0], "--yes")
    listed = json.loads(run_cli(*folders, "trace", "--json").stdout)

    assert forgotten.returncode == 0, forgotten.stderr
    assert "traces: 1 traces" in forgotten.stdout
    assert [root["attributes"][CHAT_ATTRIBUTE] for root in listed] == [chat_ids[1]]
    assert chat_ids[0].encode() not in store.read_bytes()
