"""With no network but loopback the server does all of its work, and nothing tries to leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, STARTER, RunCli, stored_model

_SEALED = ["unshare", "-rn", "--", sys.executable]
_UP = (
    "import os, sys; from appliance.cli.egress_probe import raise_loopback; raise_loopback(); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


@pytest.fixture(autouse=True, scope="module")
def _sealing_is_permitted() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    tried = subprocess.run(["unshare", "-rn", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"network namespaces are not permitted here: {tried.stderr.strip()}")


def probe(model: str) -> dict[str, object]:
    finished = subprocess.run(
        [*_SEALED, "-m", "appliance.cli.egress_probe"],
        env={**os.environ, "APPLIANCE_MODEL": model},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=REPOSITORY,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found: dict[str, object] = json.loads(finished.stdout.splitlines()[-1])
    return found


def test_a_scripted_model_answers_over_http_with_loopback_only() -> None:
    assert probe("scripted:echo") == {"model": "scripted:echo", "interfaces": ["lo"], "attempts": []}


@pytest.mark.slow
def test_the_starter_model_answers_over_http_with_loopback_only() -> None:
    stored_model(STARTER)

    assert probe(STARTER) == {"model": STARTER, "interfaces": ["lo"], "attempts": []}


@pytest.mark.slow
def test_the_contract_of_the_server_holds_with_loopback_only() -> None:
    finished = subprocess.run(
        [
            *_SEALED,
            "-c",
            _UP,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/contract/server/test_tickets.py",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout[-3_000:]
    assert " passed" in finished.stdout


@pytest.mark.slow
def test_an_auditor_is_shown_what_may_leave_and_what_does(run_cli: RunCli) -> None:
    finished = run_cli(
        "--set", "offline=true", "--set", "model=scripted:echo", "doctor", "--egress", "--json", timeout_s=180
    )

    report = json.loads(finished.stdout)
    rows = {row["name"]: row for row in report["rows"]}
    assert report["is_healthy"]
    assert rows["offline"]["value"].startswith("on")
    assert rows["sealed off"]["status"] == "ok"
    assert {row["status"] for row in report["rows"]} == {"ok"}


def test_a_provider_elsewhere_is_shown_as_a_way_out(run_cli: RunCli, tmp_path: Path) -> None:
    allowed = '[providers.far]\nurl = "https://models.example.org/v1"\nallow = true\n'
    config = tmp_path / "config.toml"
    config.write_text(allowed, encoding="utf-8")

    finished = run_cli(
        "--config", str(config), "--set", "model=scripted:echo", "doctor", "--egress", "--json"
    )

    rows = {row["name"]: row for row in json.loads(finished.stdout)["rows"]}
    assert rows["far"]["status"] == "warn"
    assert "models.example.org" in rows["far"]["value"]
