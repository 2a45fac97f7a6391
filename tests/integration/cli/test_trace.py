"""`appliance trace` rebuilds the path of a request, and nothing that was said is in it."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

SECRET = "heliotrope"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def ask(run_cli: RunCli, state: Path, *arguments: str) -> None:
    flags = ("--set", f"state_dir={state}", "--set", "model=scripted:echo", "--set", "log_level=debug")
    run_cli(*flags, *arguments, "ask", f"the {SECRET} is in the cellar")


def test_a_request_is_listed_and_its_tree_says_what_took_how_long(run_cli: RunCli, state: Path) -> None:
    ask(run_cli, state)

    listed = json.loads(run_cli("--set", f"state_dir={state}", "trace", "--json").stdout)
    shown = run_cli("--set", f"state_dir={state}", "trace", listed[0]["trace_id"][:10])
    (tree,) = json.loads(
        run_cli("--set", f"state_dir={state}", "trace", listed[0]["trace_id"], "--json").stdout
    )

    assert [root["name"] for root in listed] == ["chat"]
    assert "attempt" in shown.stdout
    assert {"admission", "attempt"} <= {child["name"] for child in tree["children"]}
    assert tree["attributes"]["gen_ai.response.model"] == "scripted:echo"
    for child in tree["children"]:
        assert child["start_ns"] >= tree["start_ns"]
        assert child["start_ns"] + child["duration_ns"] <= tree["start_ns"] + tree["duration_ns"] + 5_000_000


def test_nothing_that_was_said_lies_in_traces_or_logs(run_cli: RunCli, state: Path) -> None:
    ask(run_cli, state)

    files = [path for path in state.rglob("*") if path.is_file()]
    assert "traces.db" in {path.name for path in files}
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_with_no_days_to_keep_them_there_are_no_traces(run_cli: RunCli, state: Path) -> None:
    ask(run_cli, state, "--set", "trace_days=0")

    assert not (state / "traces.db").exists()
    refused = run_cli("--set", f"state_dir={state}", "trace")
    assert refused.returncode == 1
    assert "no traces yet" in refused.stderr


def test_an_unknown_id_is_refused_with_the_way_out(run_cli: RunCli, state: Path) -> None:
    ask(run_cli, state)

    refused = run_cli("--set", f"state_dir={state}", "trace", "zzzz")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "`appliance trace` lists" in refused.stderr
