"""`appliance doctor` as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

RunCli = Callable[..., "CompletedProcess[str]"]
SECTIONS = ["program", "settings", "machine", "engine", "paths", "models", "disk", "tools"]


def rows_of(finished: CompletedProcess[str]) -> dict[tuple[str, str], dict[str, str]]:
    report = json.loads(finished.stdout)
    return {(row["section"], row["name"]): row for row in report["rows"]}


@pytest.mark.slow
def test_with_weights_the_self_test_is_run_and_every_section_is_there(
    run_cli: RunCli, starter_weights: Path
) -> None:
    finished = run_cli("doctor", "--json", "--verify", timeout_s=300)

    rows = rows_of(finished)
    assert list(dict.fromkeys(section for section, _name in rows)) == SECTIONS
    assert rows["engine", "self-test"]["status"] == "ok"
    assert "evaluated 94 tokens" in rows["engine", "self-test"]["value"]
    model = rows["models", "smollm2:135m-instruct-q4_1"]
    assert starter_weights.name.removeprefix("sha256-") in model["value"]
    assert "hashed again just now" in model["value"]
    assert all(row["remedy"] for row in rows.values() if row["status"] != "ok")
    assert json.loads(finished.stdout)["is_healthy"] is (finished.returncode == 0)


def test_without_weights_the_exit_code_is_one_and_the_way_out_is_named(
    run_cli: RunCli, tmp_path: Path
) -> None:
    finished = run_cli("doctor", environment={"APPLIANCE_MODELS": str(tmp_path / "empty")})

    assert finished.returncode == 1
    assert "FAIL  self-test" in finished.stdout
    assert "appliance pull smollm2:135m-instruct-q4_1" in finished.stdout
    assert "failed" in finished.stdout.splitlines()[-1]


def test_a_broken_settings_file_is_one_failed_line_and_the_other_checks_still_run(
    run_cli: RunCli, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("threads = 'many'\n")
    environment = {"APPLIANCE_CONFIG": str(config), "APPLIANCE_MODELS": str(tmp_path / "empty")}

    finished = run_cli("doctor", "--json", environment=environment)

    rows = rows_of(finished)
    assert finished.returncode == 1
    assert rows["settings", "settings"]["status"] == "fail"
    assert f"{config}:1" in rows["settings", "settings"]["value"]
    assert rows["machine", "memory"]["value"]


def test_control_characters_of_the_environment_never_reach_the_terminal(
    run_cli: RunCli, tmp_path: Path
) -> None:
    folder = tmp_path / "evil\x1b]0;title\x07"

    finished = run_cli("doctor", environment={"APPLIANCE_MODELS": str(folder)})

    assert "\x1b]0;" not in finished.stdout
    assert "\x07" not in finished.stdout
