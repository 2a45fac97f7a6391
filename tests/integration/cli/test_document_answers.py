"""`ask -c`, `search` and `context` in processes of their own, over a collection that `add` made."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

SCRIPT = """
[[model]]
name = "scripted:reader"
[[model.turn]]
steps = [{say = "Unused leave can be carried over until the end of March. Gold is paid for it."}]
[[model]]
name = "scripted:writer"
[[model.turn]]
steps = [{say = "1. carry over days\\n2. end of March"}]
"""
QUESTION = "Until when can unused leave be carried over?"
READER = ("-m", "scripted:reader", "-c", "handbook")

pytestmark = pytest.mark.slow


@pytest.fixture
def collection(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder_folder: Path
) -> None:
    """A collection of one document, searchable by text, and a model that answers by script."""
    script = tmp_path / "reader.toml"
    script.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("APPLIANCE_SCRIPT", str(script))
    paper = tmp_path / "leave.txt"
    paper.write_text("Unused leave can be carried over until the end of March of the next year.\n")
    added = run_cli("add", str(paper), "-c", "handbook", "--no-vectors", timeout_s=120)
    assert added.returncode == 0, added.stderr


@pytest.mark.usefixtures("collection")
def test_an_answer_shows_its_quote_and_marks_what_is_not_there(run_cli: RunCli) -> None:
    shown = run_cli("ask", QUESTION, *READER, timeout_s=120)

    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == (
        "Unused leave can be carried over until the end of March. [1] Gold is paid for it. [unverified]"
    )
    assert lines[2].startswith("[1] ")
    assert lines[2].endswith("leave.txt  (verified)")
    assert lines[3] == "    “Unused leave can be carried over until the end of March of the next year.”"
    assert "have no vector yet" in shown.stderr


@pytest.mark.usefixtures("collection")
def test_a_streamed_answer_is_judged_after_it(run_cli: RunCli) -> None:
    shown = run_cli("ask", QUESTION, *READER, "--cite", "after", timeout_s=120)

    assert shown.stdout.startswith(
        "Unused leave can be carried over until the end of March. Gold is paid for it.\n"
    )
    assert "1 of 2 sentences stand in the documents" in shown.stdout
    assert "UNVERIFIED  Gold is paid for it." in shown.stdout


@pytest.mark.usefixtures("collection")
def test_the_receipt_of_context_is_what_the_answer_took(run_cli: RunCli) -> None:
    receipt = json.loads(run_cli("context", QUESTION, *READER, "--json", timeout_s=120).stdout)
    answer = json.loads(run_cli("ask", QUESTION, *READER, "--json", timeout_s=120).stdout)

    assert receipt["total_tokens"] == answer["usage"]["input_tokens"] > 0
    sections = {section["name"]: section["tokens"] for section in receipt["sections"]}
    assert sum(sections.values()) + receipt["template_tokens"] == receipt["total_tokens"]
    assert sections["documents"] > 10
    assert answer["receipt"]["total_tokens"] == receipt["total_tokens"]


@pytest.mark.usefixtures("collection")
def test_an_unknown_collection_names_those_there_are(run_cli: RunCli) -> None:
    shown = run_cli("ask", QUESTION, "-m", "scripted:reader", "-c", "laws", timeout_s=120)

    assert (shown.returncode, shown.stdout) == (1, "")
    assert "there is no collection 'laws'" in shown.stderr
    assert "handbook" in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "q", "--all"),
        ("ask", "q", "-c", "handbook", "--refine"),
        ("ask", "q", "-c", "handbook", "--choice", "a,b"),
        ("ask", "q", "-c", "handbook", "-k", "0"),
        ("ask", "q", "-c", "handbook", "--cite", "never"),
        ("context", " "),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(run_cli: RunCli, arguments: tuple[str, ...]) -> None:
    shown = run_cli(*arguments)

    assert shown.returncode == 2
    assert "Error:" in shown.stderr


def test_the_receipt_of_a_plain_question_is_what_ask_takes(run_cli: RunCli) -> None:
    arguments = ("-m", "scripted:echo", "-s", "be brief", "one two three")
    receipt = json.loads(run_cli("context", "--json", *arguments).stdout)
    answer = json.loads(run_cli("ask", "--json", *arguments).stdout)

    assert receipt["total_tokens"] == answer["usage"]["input_tokens"]
    shown = run_cli("context", *arguments).stdout
    assert f"total      {receipt['total_tokens']:>7}" in shown


@pytest.mark.usefixtures("collection")
def test_a_search_tells_what_it_was_asked_as_too(run_cli: RunCli) -> None:
    found = run_cli(
        "search", "vacation", "-c", "handbook", "--queries", "2", "-m", "scripted:writer", "--json"
    )
    without = run_cli("ask", QUESTION, "--queries", "2", "-m", "scripted:reader")

    trace = json.loads(found.stdout)["trace"]
    assert trace["queries"] == ["vacation", "carry over days", "end of March"]
    assert "also searched for: end of March" in trace["notes"]
    assert without.returncode == 2
    assert "name a collection with -c" in without.stderr
