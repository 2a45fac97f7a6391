"""`appliance chat` with lines piped in."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

ECHO = ("chat", "-m", "scripted:echo")


def test_each_line_is_answered_on_a_line_of_its_own(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, stdin="hello\n\nhow are you?\n")

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "hello\nhow are you?\n", "")


def test_a_last_line_without_a_line_break_is_answered_too(run_cli: RunCli) -> None:
    assert run_cli(*ECHO, stdin="one\ntwo").stdout == "one\ntwo\n"


def test_messages_of_several_lines(run_cli: RunCli) -> None:
    assert run_cli(*ECHO, stdin='one\\\ntwo\n"""\nthree\n\nfour\n"""\n').stdout == "one\ntwo\nthree\n\nfour\n"


def test_a_double_slash_begins_a_message_with_a_slash(run_cli: RunCli) -> None:
    assert run_cli(*ECHO, stdin="//etc is a folder\n").stdout == "/etc is a folder\n"


def test_the_conversation_goes_on_and_retry_answers_again(run_cli: RunCli, tmp_path: Path) -> None:
    saved = tmp_path / "talk.md"

    shown = run_cli(
        *ECHO, "--system", "be brief", stdin=f"one\ntwo\n/retry\n/save {saved}\n/exit\nnever read\n"
    )

    assert shown.stdout == "one\ntwo\ntwo\n"
    assert saved.read_text(encoding="utf-8").split("## ")[1:] == [
        "System\n\nbe brief\n\n", "Question\n\none\n\n", "Answer\n\none\n\n",
        "Question\n\ntwo\n\n", "Answer\n\ntwo\n",
    ]  # fmt: skip


def test_a_bad_command_is_reported_the_chat_goes_on_and_the_exit_code_tells(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, stdin="/nonsense\nhello\n/model nobody:1b\n/set top_k x\nbye\n")

    assert (shown.returncode, shown.stdout) == (1, "hello\nbye\n")
    assert [line for line in shown.stderr.splitlines() if line.startswith("error: ")] == [
        "error: there is no command /nonsense",
        "error: there is no model nobody:1b",
        "error: top_k takes a number, not 'x'",
    ]


def test_a_failed_answer_keeps_its_text_and_the_chat_goes_on(run_cli: RunCli) -> None:
    shown = run_cli("chat", "-m", "scripted:crash", stdin="go\n/model scripted:echo\nagain\n")

    assert (shown.returncode, shown.stdout) == (1, "half an \nagain\n")
    assert "error: it died" in shown.stderr


def test_a_cut_answer_is_never_silent(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, "--max-tokens", "2", stdin="one two three\n")

    assert shown.stdout == "one two\n"
    assert "cut after 2 tokens" in shown.stderr


def test_a_line_that_is_not_utf8_is_refused_and_the_next_one_answered(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, stdin=b"caf\xe9\nfine\n")

    assert (shown.returncode, shown.stdout) == (1, "fine\n")
    assert "not UTF-8" in shown.stderr


def test_an_unknown_model_ends_the_chat_before_it_begins(run_cli: RunCli) -> None:
    shown = run_cli("chat", "-m", "nobody:1b", stdin="hello\n")

    assert (shown.returncode, shown.stdout) == (1, "")
    assert "nobody" in shown.stderr


def test_a_conversation_is_kept_on_disk_unless_it_is_private(run_cli: RunCli) -> None:
    run_cli(*ECHO, stdin="kept words\n/retry\n")
    run_cli(*ECHO, "--no-store", stdin="private words\n")

    (chat,) = json.loads(run_cli("chats", "list", "--json").stdout)
    assert chat["title"] == "kept words"
    turns = json.loads(run_cli("chats", "show", chat["id"][:8], "--branches", "--json").stdout)["turns"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "assistant"]


def test_a_conversation_longer_than_the_window_goes_on_and_says_what_was_folded(
    run_cli: RunCli, script_file: Path
) -> None:
    script_file.write_text(
        '[[model]]\nname = "scripted:short"\ncontext_window = 120\n[[model.turn]]\nsteps = [{say = "noted"}]\n'
    )
    question = "a question with quite a few words in it to fill the window sooner than later"

    shown = run_cli("chat", "-m", "scripted:short", "--max-tokens", "8", stdin=f"{question}\n" * 8)
    full = run_cli(
        "--set", "memory=full", "chat", "-m", "scripted:short", "--max-tokens", "8", stdin=f"{question}\n" * 8
    )

    assert (shown.returncode, shown.stdout) == (0, "noted\n" * 8)
    assert "stand in the prompt as a summary" in shown.stderr
    assert (full.returncode, "the context window holds" in full.stderr) == (1, True)


@pytest.mark.parametrize("kept", [(), ("--no-store",)])
def test_continue_writes_the_rest_of_a_cut_answer_and_refuses_a_whole_one(
    run_cli: RunCli, tmp_path: Path, kept: tuple[str, ...]
) -> None:
    saved = tmp_path / "talk.md"
    lines = f"one two three four five\n/continue\n/continue\n/save {saved}\n/continue\n"

    shown = run_cli(*ECHO, *kept, "--max-tokens", "2", stdin=lines)

    assert (shown.returncode, shown.stdout) == (1, "one two\n three four\n five\n")
    assert "error: this answer is whole: the model ended it itself" in shown.stderr
    assert saved.read_text(encoding="utf-8").endswith("Answer\n\none two three four five\n")


@pytest.mark.parametrize("kept", [(), ("--no-store",)])
def test_continue_before_anything_was_answered_is_refused(run_cli: RunCli, kept: tuple[str, ...]) -> None:
    shown = run_cli(*ECHO, *kept, stdin="/continue\nhello\n")

    assert (shown.returncode, shown.stdout) == (1, "hello\n")
    assert "error: there is no answer to continue yet" in shown.stderr
