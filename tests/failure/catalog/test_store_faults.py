"""What the store withstands: a full disk, two processes at once, Ctrl+C, damaged manifests."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.catalog.names import parse_card_name
from appliance.catalog.store import ModelStore
from appliance.core.errors import StorageError
from tests.gguf_files import tiny_model
from tests.hub_server import FakeHub, running_hub

REPOSITORY = Path(__file__).resolve().parents[3]
GGUF = tiny_model(30_000).to_bytes()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running_hub() as running:
        running.files["u/tiny/tiny-Q4_K_M.gguf"] = GGUF
        yield running


def environment(hub: FakeHub, tmp_path: Path) -> dict[str, str]:
    proxies = {"http_proxy", "https_proxy", "all_proxy", "hf_hub_offline", "hf_token"}
    kept = {name: value for name, value in os.environ.items() if name.lower() not in proxies}
    return {
        **kept,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "APPLIANCE_MODELS": str(tmp_path / "store"),
    }


def start_pull(hub: FakeHub, tmp_path: Path, *, before: str = "pass") -> subprocess.Popen[str]:
    code = f"import sys; {before}; from appliance.cli import main; sys.exit(main(['pull', 'u/tiny']))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=environment(hub, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def blobs(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "store" / "blobs").glob("*"))


def test_a_full_disk_says_what_is_needed_and_leaves_no_half_file(hub: FakeHub, tmp_path: Path) -> None:
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (1_000_000, 1_000_000))"
    output, errors = start_pull(hub, tmp_path, before=limit).communicate(timeout=60)
    assert "the disk is full" in errors
    assert "are needed" in errors
    assert blobs(tmp_path) == []
    assert output == ""

    again = start_pull(hub, tmp_path)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert blobs(tmp_path) == [f"sha256-{hashlib.sha256(GGUF).hexdigest()}"]
    assert hub.requests[-1][1].startswith("bytes=")


def test_processes_that_pull_the_same_model_at_once_agree(hub: FakeHub, tmp_path: Path) -> None:
    pulls = [start_pull(hub, tmp_path) for _ in range(3)]
    outcomes = [pull.communicate(timeout=90) for pull in pulls]
    assert [pull.returncode for pull in pulls] == [0, 0, 0], outcomes
    assert blobs(tmp_path) == [f"sha256-{hashlib.sha256(GGUF).hexdigest()}"]
    fetches = [path for path, _ in hub.requests if path.endswith(".gguf")]
    assert len(fetches) == 1


def test_ctrl_c_ends_a_pull_with_130_and_keeps_what_came(hub: FakeHub, tmp_path: Path) -> None:
    stop_at_first_bytes = (
        "import os, signal, appliance.cli.transfer_bar as bar; "
        "bar.TransferBar.__call__ = lambda self, progress: "
        "progress.done_bytes and os.kill(os.getpid(), signal.SIGINT)"
    )
    hub.break_after, hub.breaks_left = 500_000, 100
    pull = start_pull(hub, tmp_path, before=stop_at_first_bytes)
    _, errors = pull.communicate(timeout=60)
    assert pull.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert blobs(tmp_path) == []
    partial = [path.stat().st_size for path in (tmp_path / "store" / "partial").glob("*.part")]
    assert len(partial) == 1
    assert 0 < partial[0] <= 500_000


def test_a_killed_pull_leaves_no_half_file_and_holds_no_lock(hub: FakeHub, tmp_path: Path) -> None:
    die = (
        "import os, signal, appliance.cli.transfer_bar as bar; "
        "bar.TransferBar.__call__ = lambda self, progress: "
        "progress.done_bytes and os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = start_pull(hub, tmp_path, before=die)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert blobs(tmp_path) == []
    again = start_pull(hub, tmp_path)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert blobs(tmp_path) == [f"sha256-{hashlib.sha256(GGUF).hexdigest()}"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({"format": 1}),
        json.dumps({"format": 99}),
        json.dumps({"format": 1, "card": {}, "files": [], "origin": "", "is_trusted_on_first_use": False}),
        '{"format": 1, "files": [{"name": "../../x"}], "card": {}}',
    ],
)
def test_a_damaged_manifest_is_named_and_hides_no_other(content: str, tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    path = tmp_path / "manifests" / "bad" / "one.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(StorageError, match="damaged"):
        store.manifest(parse_card_name("bad:one"))
    assert store.manifests() == []
    assert store.damaged_manifests() == [path]
    assert store.remove(parse_card_name("bad:one")).freed_bytes == 0
    assert not path.exists()


def test_a_store_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ModelStore(tmp_path / "file" / "store")
    with pytest.raises(StorageError, match="cannot be used"), store.lock("x"):
        pass
