"""`/ask` and the commands about stored chats in `appliance chat`, with lines piped in."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

SCRIPT = """
[[model]]
name = "scripted:reader"
[[model.turn]]
steps = [{say = "Unused leave can be carried over until the end of March. Gold is paid for it."}]
"""
READER = ("chat", "-m", "scripted:reader")
QUOTE = "    “Unused leave can be carried over until the end of March of the next year.”"
ANSWER = "Unused leave can be carried over until the end of March. [1] Gold is paid for it. [unverified]"


@pytest.fixture
def handbook(run_cli: RunCli, tmp_path: Path, script_file: Path, embedder_folder: Path) -> None:
    """A collection of one document, searchable by text, and a model that answers by script."""
    script_file.write_text(SCRIPT, encoding="utf-8")
    paper = tmp_path / "leave.txt"
    paper.write_text("Unused leave can be carried over until the end of March of the next year.\n")
    added = run_cli("add", str(paper), "-c", "handbook", "--no-vectors", timeout_s=120)
    assert added.returncode == 0, added.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("handbook")
def test_documents_answer_with_numbered_citations_and_the_chat_keeps_them(run_cli: RunCli) -> None:
    asked = run_cli(
        *READER,
        stdin="/ask until when can unused leave be carried over? @handbook\n/retry\n/ask\n",
        timeout_s=120,
    )

    lines = asked.stdout.splitlines()
    assert lines == [ANSWER, "[1] leave.txt  (verified word for word)", QUOTE] * 2
    assert "note: read 1 of 1 passages" in asked.stderr
    assert "note: UNVERIFIED: Gold is paid for it." in asked.stderr
    assert "error: /ask needs a question" in asked.stderr
    (chat,) = json.loads(run_cli("chats", "list", "--json").stdout)
    turns = json.loads(run_cli("chats", "show", chat["id"], "--branches", "--json").stdout)["turns"]
    assert [turn["text"] for turn in turns][1:] == [ANSWER, ANSWER]


@pytest.mark.slow
@pytest.mark.usefixtures("handbook")
def test_a_private_chat_asks_documents_and_stores_nothing(run_cli: RunCli) -> None:
    question = "/ask until when can unused leave be carried over?\n"

    asked = run_cli(*READER, "--no-store", stdin=f"{question}/retry\n/ask @nothing where?\n", timeout_s=120)

    assert asked.stdout.splitlines() == [ANSWER, "[1] leave.txt  (verified word for word)", QUOTE] * 2
    assert "error: there is no document or collection @nothing" in asked.stderr
    assert "hint: there are: handbook, leave.txt" in asked.stderr
    assert json.loads(run_cli("chats", "list", "--json").stdout) == []


def test_chats_are_named_searched_deleted_and_brought_back(run_cli: RunCli) -> None:
    commands = "/title Colours\n/pin\n/chats red\n/delete\n/chats\n/undo\n/title\n"

    shown = run_cli("chat", "-m", "scripted:echo", stdin=f"red or blue\n{commands}")

    lines = shown.stderr.splitlines()
    assert lines[:2] == ["this chat is called Colours", "pinned"]
    assert "    user: red or blue" in lines
    assert "deleted: Colours; /undo brings it back to `appliance chats`. A new conversation begins" in lines
    assert "no chats yet" in lines
    assert "brought back: Colours" in lines
    assert "error: there is no chat yet" in lines


def test_a_question_is_asked_in_other_words_on_a_branch(run_cli: RunCli) -> None:
    shown = run_cli("chat", "-m", "scripted:echo", stdin="one\n/edit two\n/edit\n")

    assert shown.stdout == "one\ntwo\n"
    assert "error: /edit needs the question in other words" in shown.stderr
    (chat,) = json.loads(run_cli("chats", "list", "--json").stdout)
    turns = json.loads(run_cli("chats", "show", chat["id"], "--json").stdout)["turns"]
    assert [turn["text"] for turn in turns] == ["two", "two"]


def test_a_stated_fact_is_remembered_and_a_private_chat_says_why_it_cannot(run_cli: RunCli) -> None:
    kept = run_cli("chat", "-m", "scripted:echo", stdin="/remember I live in Bern\n/memory\n/library\n")
    private = run_cli("chat", "-m", "scripted:echo", "--no-store", stdin="/chats\n")

    assert "remembered: I live in Bern" in kept.stderr
    assert "confirmed  I live in Bern" in kept.stderr
    assert "hint: `appliance docs` lists documents" in kept.stderr
    assert "error: /chats needs the stored chats" in private.stderr
