"""`appliance facts` in processes of its own."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

SCRIPT = """
[[model]]
name = "scripted:listener"
[[model.turn]]
steps = [{say = '{"phrases": ["I live in Rome", "I am a spy"]}'}]
"""

pytestmark = pytest.mark.slow


def test_a_fact_is_proposed_from_a_chat_confirmed_edited_and_deleted(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder_folder: Path
) -> None:
    script, chats = tmp_path / "listener.toml", tmp_path / "chats.json"
    script.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(script))
    node = {"id": "a", "parent": None, "children": [], "message": {
        "id": "a", "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["I live in Rome."]},
        "create_time": 1.0}}  # fmt: skip
    chats.write_text(json.dumps([{"title": "Home", "mapping": {"a": node}, "current_node": "a"}]))
    assert run_cli("chats", "import", str(chats)).returncode == 0

    proposed = json.loads(run_cli("facts", "propose", "Home", "-m", "scripted:listener", "--json").stdout)
    confirmed = json.loads(run_cli("facts", "confirm", proposed[0]["id"][:8], "--json").stdout)
    edited = run_cli("facts", "edit", confirmed["id"][:8], "I live in Paris")
    listed = run_cli("facts")
    deleted = run_cli("facts", "delete", confirmed["id"][:8])

    assert [fact["text"] for fact in proposed] == ["I live in Rome"]
    assert confirmed["state"] == "confirmed"
    assert "I live in Paris  [corrected]" in edited.stdout
    assert listed.stdout == edited.stdout
    assert "deleted" in deleted.stdout
    assert run_cli("facts", "--help").returncode == 0
    assert json.loads(run_cli("facts", "list", "--json").stdout) == []


def test_an_unknown_fact_is_refused_with_the_way_out(run_cli: RunCli) -> None:
    shown = run_cli("facts", "confirm", "ffffffff")

    assert (shown.returncode, "`appliance facts` lists them" in shown.stderr) == (1, True)
