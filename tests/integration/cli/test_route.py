"""`appliance route` shows who would answer and why others would not, and runs no model."""

import json
from pathlib import Path

import pytest

from appliance.cli.stats import handling_parts
from appliance.core.handling import AttemptRecord, Cost, Handling
from tests.conftest import RunCli

CONFIG = """
[routes.docs]
candidates = ["nobody", { model = "scripted:echo", latency = "batch", max_difficulty = 3 }]
stages = { rewrite = "nobody" }
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def test_candidates_and_rejections_are_printed_in_words(run_cli: RunCli, config: str) -> None:
    shown = run_cli("--config", config, "route", "docs")

    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [
        "route docs: difficulty 0, data stays on this machine",
        "  1. scripted:echo  scripted, this_process",
        "  -  nobody         rejected (unknown_model): there is no model nobody",
    ]


@pytest.mark.parametrize(
    "options, reason",
    [
        (["--needs", "vision"], "capability"),
        (["--context-tokens", "100000"], "context_window"),
        (["--latency", "interactive"], "latency"),
        (["--difficulty", "4"], "difficulty"),
    ],
)
def test_a_need_that_nobody_meets_is_named_and_fails(
    run_cli: RunCli, config: str, options: list[str], reason: str
) -> None:
    shown = run_cli("--config", config, "route", "docs", "--json", *options)

    decision = json.loads(shown.stdout)
    assert shown.returncode == 1
    assert decision["candidates"] == []
    assert [found["reason"] for found in decision["rejected"]] == ["unknown_model", reason]


def test_a_stage_is_decided_by_its_own_model(run_cli: RunCli, config: str) -> None:
    shown = run_cli("--config", config, "route", "docs", "--stage", "rewrite")

    assert shown.returncode == 1
    assert "nobody would answer" in shown.stdout


def test_without_a_name_the_routes_are_listed(run_cli: RunCli, config: str) -> None:
    assert run_cli("--config", config, "route").stdout == "docs: nobody, scripted:echo\n"
    assert "no routes" in run_cli("route").stdout


@pytest.mark.parametrize(
    "options", [["--difficulty", "11"], ["--context-tokens", "-1"], ["--privacy", "moon"]]
)
def test_needs_out_of_range_are_refused(run_cli: RunCli, config: str, options: list[str]) -> None:
    shown = run_cli("--config", config, "route", "docs", *options)

    assert shown.returncode in (1, 2)
    assert shown.stdout == ""
    assert "Traceback" not in shown.stderr


def test_a_route_is_asked_by_its_name_like_a_model(run_cli: RunCli, config: str) -> None:
    shown = run_cli("--config", config, "ask", "-m", "docs", "hello there")

    assert (shown.returncode, shown.stdout) == (0, "hello there")


def test_statistics_tell_what_was_unusual_and_the_cost() -> None:
    attempt = AttemptRecord(provider="p", model="m")
    cost = Cost(amount=0.25, currency="EUR", price_version="2026-11")

    parts = handling_parts(Handling(attempts=(attempt, attempt), is_from_cache=True, cost=cost))

    assert parts == ["stored answer", "2 attempts", "0.250000 EUR (prices 2026-11)"]
    assert handling_parts(Handling(attempts=(attempt,))) == []
