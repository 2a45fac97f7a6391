"""`appliance extract` in a process of its own."""

import csv
import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

SCRIPT = """
[[model]]
name = "scripted:clerk"
[[model.turn]]
steps = [{say = '{"tenant": "Ada Byron", "rent": 900}'}]
"""
CLERK = ("extract", "-m", "scripted:clerk", "--schema", "tenant, rent float")

pytestmark = pytest.mark.slow


def test_rows_of_a_collection_are_printed_and_written_with_their_evidence(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder_folder: Path
) -> None:
    script = tmp_path / "clerk.toml"
    script.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(script))
    paper, table = tmp_path / "lease.txt", tmp_path / "out.csv"
    paper.write_text("The tenant is Ada Byron. The rent is 800 euro.\n")
    run_cli("add", str(paper), "-c", "leases", "--no-vectors", timeout_s=120)

    shown = run_cli(*CLERK, "-c", "leases", timeout_s=120)
    written = run_cli(*CLERK, "lease.txt", "-o", str(table), timeout_s=120)
    again = run_cli(*CLERK, "lease.txt", "-o", str(table), timeout_s=120)
    lines = run_cli(*CLERK, "lease.txt", "--format", "jsonl", timeout_s=120)

    assert shown.stdout.splitlines()[:3] == [
        "lease.txt",
        "  tenant               Ada Byron  “Ada Byron”",
        "  rent                 900  NOT IN THE DOCUMENT",
    ]
    assert written.returncode == 0, written.stderr
    header, cells = csv.reader(table.read_text(encoding="utf-8").splitlines())
    told = dict(zip(header, cells, strict=True))
    assert (told["tenant"], told["tenant quote"], told["rent verdict"]) == (
        "Ada Byron",
        "Ada Byron",
        "absent",
    )
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    assert json.loads(lines.stdout)["evidence"][0]["start"] == 14


def test_naming_no_document_is_refused_with_the_way_out(run_cli: RunCli) -> None:
    shown = run_cli(*CLERK)

    assert (shown.returncode, "-c" in shown.stderr) == (2, True)
