"""The model commands as a user runs them: output, errors and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.gguf_files import tiny_model


@pytest.fixture
def own_store(tmp_path: Path) -> dict[str, str]:
    return {"APPLIANCE_MODELS": str(tmp_path / "store"), "HOME": str(tmp_path)}


def test_a_model_is_imported_listed_shown_verified_and_removed(
    run_cli: RunCli, own_store: dict[str, str], tmp_path: Path
) -> None:
    weights = tiny_model().write(tmp_path / "tiny.gguf")
    imported = run_cli("import", str(weights), "--as", "tiny:one", environment=own_store)
    assert (imported.returncode, imported.stderr) == (0, "")
    assert imported.stdout.startswith("tiny:one: imported (copy)")

    listed = json.loads(run_cli("list", "--stored", "--json", environment=own_store).stdout)
    assert [(row["id"], row["is_on_disk"], row["quantisation"], row["context_window"]) for row in listed] == [
        ("tiny:one", True, "F32", 1024)
    ]
    assert listed[0]["size_bytes"] == weights.stat().st_size
    assert listed[0]["fit"] == "yes"

    shown = json.loads(run_cli("show", "tiny", "--context", "512", "--parallel", "2", "--json",
                               environment=own_store).stdout)  # fmt: skip
    memory = shown["memory"]
    parts = ("weights", "repacked", "kv_cache", "compute", "runtime")
    assert sum(memory[f"{part}_bytes"] for part in parts) == memory["total_bytes"]
    assert (memory["kv_cells"], memory["fits"], memory["largest_context_tokens"]) == (1024, True, 1024)

    verified = run_cli("verify", environment=own_store)
    assert verified.returncode == 0
    assert verified.stdout.split() == ["good", "tiny:one", "tiny.gguf"]
    blob = next((tmp_path / "store" / "blobs").iterdir())
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    bad = run_cli("verify", "tiny", environment=own_store)
    assert bad.returncode == 1
    assert "changed" in bad.stdout
    assert str(blob) in bad.stdout
    assert "appliance import PATH --as tiny:one" in bad.stdout

    removed = run_cli("rm", "tiny:one", "--json", environment=own_store)
    assert json.loads(removed.stdout) == [
        {"id": "tiny:one", "freed_bytes": weights.stat().st_size, "kept_files": []}
    ]
    again = run_cli("rm", "tiny:one", environment=own_store)
    assert (again.returncode, again.stdout) == (1, "")
    assert "tiny:one" in again.stderr


def test_errors_go_to_standard_error_with_a_way_out(
    run_cli: RunCli, own_store: dict[str, str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    cases = {
        ("pull", "smolm2"): "did you mean smollm2:135m-instruct-q4_1",
        ("show", "/etc/passwd"): "not a GGUF",
        ("show", "qwen3"): "several tags",
        ("import", str(broken)): "truncated",
        ("import", str(tmp_path / "none.gguf")): "no file",
        ("verify", "smollm2"): "not in the store",
        ("rm", "a/b/c"): "not a repository",
    }
    for arguments, expected in cases.items():
        outcome = run_cli(*arguments, environment=own_store)
        assert (outcome.returncode, outcome.stdout) == (1, ""), arguments
        assert expected in outcome.stderr
        assert "Traceback" not in outcome.stderr
    assert run_cli("import", environment=own_store).returncode == 2


def test_offline_is_told_and_nothing_is_written(
    run_cli: RunCli, own_store: dict[str, str], tmp_path: Path
) -> None:
    outcome = run_cli("pull", "smollm2", environment={**own_store, "APPLIANCE_OFFLINE": "1"})
    assert outcome.returncode == 1
    assert "APPLIANCE_OFFLINE forbids every network source" in outcome.stderr
    assert not list((tmp_path / "store").rglob("sha256-*"))


def test_a_context_that_cannot_fit_is_refused_after_the_plan(
    run_cli: RunCli, own_store: dict[str, str], tmp_path: Path
) -> None:
    weights = tiny_model().write(tmp_path / "tiny.gguf")
    outcome = run_cli("show", str(weights), "--context", "16777216", "--parallel", "128",
                      environment=own_store)  # fmt: skip
    assert outcome.returncode == 1
    assert "does not fit" in outcome.stdout
    assert "was trained for 1024 tokens" in outcome.stdout
    assert "at most 1024 tokens" in outcome.stderr


def test_everything_that_can_be_fetched_is_listed(run_cli: RunCli, own_store: dict[str, str]) -> None:
    outcome = run_cli("list", environment=own_store)
    assert outcome.returncode == 0
    assert outcome.stdout.splitlines()[0].split() == [
        "NAME", "SIZE", "PARAMETERS", "QUANT", "CONTEXT", "ON", "DISK", "FITS",
    ]  # fmt: skip
    assert len(outcome.stdout.splitlines()) > 15
    assert run_cli("import", "--scan", environment=own_store).returncode == 0
