"""`appliance ask` in a process of its own, with standard streams that are pipes."""

import json

import pytest

from tests.conftest import RunCli

THINKER = ("ask", "-m", "scripted:thinker")
ECHO = ("ask", "-m", "scripted:echo")


def test_the_answer_is_all_there_is_on_standard_output_and_exact(run_cli: RunCli) -> None:
    shown = run_cli(*THINKER, "capital of France?")

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "Paris \x1b[31mis\u202e it.", "")


def test_words_without_quotes_are_one_question(run_cli: RunCli) -> None:
    assert run_cli(*ECHO, "why", "is", "it?").stdout == "why is it?"


@pytest.mark.parametrize(
    "question, piped, asked",
    [
        ("summarise", "a report\n", "summarise\n\na report"),
        ("", "only this\r\n\n", "only this"),
        ("only this", "", "only this"),
        ("only this", "\n \n", "only this"),
        ("count", "  indented\n\ttext  \n", "count\n\n  indented\n\ttext  "),
        ("", "\ufeffwith a byte order mark", "with a byte order mark"),
    ],
)
def test_text_piped_in_follows_the_question_after_a_blank_line(
    run_cli: RunCli, question: str, piped: str, asked: str
) -> None:
    assert run_cli(*ECHO, *([question] if question else []), stdin=piped).stdout == asked


def test_text_that_is_not_utf8_is_refused_and_named(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, "read this", stdin=b"caf\xe9")

    assert shown.returncode == 2
    assert "byte 3 is 0xe9" in shown.stderr


def test_any_locale_reads_and_writes_utf8(run_cli: RunCli) -> None:
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

    assert run_cli(*ECHO, stdin="naïve 日本", environment=environment).stdout == "naïve 日本"


def test_json_is_one_object_with_all_the_facts(run_cli: RunCli) -> None:
    shown = run_cli(*THINKER, "--json", "capital?")

    answer = json.loads(shown.stdout)
    assert shown.returncode == 0
    assert answer["text"] == "Paris \x1b[31mis\u202e it."
    assert answer["reasoning"] == "Let me see. "
    assert (answer["finish_reason"], answer["failure"]) == ("stop", None)
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (4, 7)
    assert answer["timings"]["total_s"] >= answer["timings"]["ttft_s"] > 0
    assert (answer["model"]["provider"], answer["model"]["name"]) == ("scripted", "scripted:thinker")
    assert len(answer["model"]["digest"]) == 64


def test_reasoning_and_stats_go_to_standard_error(run_cli: RunCli) -> None:
    shown = run_cli(*THINKER, "--reasoning", "--stats", "capital?")

    assert shown.stdout == "Paris \x1b[31mis\u202e it."
    assert shown.stderr.startswith("Let me see. ")
    assert "4 tokens in · 7 out (4 thinking)" in shown.stderr


def test_a_cut_answer_is_never_silent(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, "--max-tokens", "2", "one two three")

    assert (shown.returncode, shown.stdout) == (0, "one two")
    assert "cut after 2 tokens" in shown.stderr
    assert (
        json.loads(run_cli(*ECHO, "--json", "--max-tokens", "2", "a b c").stdout)["finish_reason"] == "length"
    )


def test_stop_and_system_reach_the_model(run_cli: RunCli) -> None:
    shown = run_cli(*ECHO, "--system", "be brief", "--stop", "three", "--json", "one two three four")

    answer = json.loads(shown.stdout)
    assert (answer["text"], answer["finish_reason"]) == ("one two ", "stop")
    assert answer["usage"]["input_tokens"] == (2 + 2) + (4 + 2) + 1


def test_a_failure_says_cause_and_way_out_after_the_text(run_cli: RunCli) -> None:
    shown = run_cli("ask", "-m", "scripted:crash", "go")

    assert (shown.returncode, shown.stdout) == (1, "half an ")
    assert shown.stderr == "error: it died\n"


def test_json_of_a_failure_holds_the_failure_and_the_partial_text(run_cli: RunCli) -> None:
    shown = run_cli("ask", "-m", "scripted:crash", "--json", "go")

    answer = json.loads(shown.stdout)
    assert shown.returncode == 1
    assert (answer["text"], answer["finish_reason"]) == ("half an ", "error")
    assert (answer["failure"]["kind"], answer["failure"]["message"]) == ("engine_crashed", "it died")


def test_a_prompt_that_does_not_fit_is_refused_with_both_counts(run_cli: RunCli) -> None:
    shown = run_cli("ask", "-m", "scripted:small", "one two three four five six seven eight")

    assert (shown.returncode, shown.stdout) == (1, "")
    assert "the prompt has 11 tokens, the context window holds 8" in shown.stderr
    assert "hint: " in shown.stderr


def test_an_unknown_model_names_what_to_do(run_cli: RunCli) -> None:
    shown = run_cli("ask", "-m", "nobody:1b", "hi")

    assert shown.returncode == 1
    assert "nobody" in shown.stderr
    assert "hint: " in shown.stderr
    assert "Traceback" not in shown.stderr


def test_debug_shows_the_traceback(run_cli: RunCli) -> None:
    assert "Traceback" in run_cli("--debug", "ask", "-m", "nobody:1b", "hi").stderr


@pytest.mark.slow
def test_a_real_model_answers_and_leaves_no_worker(run_cli: RunCli, starter_weights: object) -> None:
    arguments = ("ask", "--temperature", "0", "--max-tokens", "8", "--context", "512", "--json")

    answer = json.loads(run_cli(*arguments, "Say hello.", timeout_s=300).stdout)

    assert answer["failure"] is None
    assert answer["usage"]["output_tokens"] <= 8
    assert answer["text"] != ""
    assert answer["model"]["provider"] == "llama_cpp"
    assert run_cli("ps").stdout == "no model is loaded\n"
