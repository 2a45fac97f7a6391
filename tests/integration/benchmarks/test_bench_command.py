"""`appliance bench` in a process of its own, with the starter model and with servers on this machine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.answers import LoadRequest
from benchmarks.commands.group import ENTRIES
from benchmarks.http_target import HttpTarget
from benchmarks.records import Record, RecordStore
from benchmarks.selfcheck import mock_server
from tests.benchmark_records import rate, record
from tests.conftest import REPOSITORY, RunCli

SMALL = ("engine", "-t", "1", "-p", "16", "-n", "4", "-d", "0,32")


@pytest.mark.parametrize("name", ENTRIES)
def test_each_bench_command_has_help(run_cli: RunCli, name: str) -> None:
    shown = run_cli("bench", name, "--help")

    assert shown.returncode == 0
    assert f"appliance bench {name} [OPTIONS]" in shown.stdout


def test_help_of_bench_loads_nothing_heavy() -> None:
    trial = (
        "import sys\nfrom appliance.cli import main\nassert main(['bench', 'engine', '--help']) == 0\n"
        "print(sorted({'numpy', 'pydantic', 'httpx', 'psutil', 'llama_cpp'} & set(sys.modules)), file=sys.stderr)"
    )

    finished = subprocess.run(
        [sys.executable, "-c", trial], capture_output=True, text=True, check=True, timeout=60
    )

    assert finished.stderr.strip() == "[]"


@pytest.mark.slow
@pytest.mark.usefixtures("starter_weights")
def test_the_engine_is_measured_with_exact_sizes_and_every_line_is_json(run_cli: RunCli) -> None:
    shown = run_cli("bench", *SMALL, "-r", "2", "--json", "--progress", "json", timeout_s=120)

    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    records = [Record.model_validate(line) for line in lines if line["kind"] == "record"]
    assert shown.returncode == 0, shown.stderr
    assert [one.test for one in records] == ["pp16", "tg4", "pp16 @ d32", "tg4 @ d32"]
    assert [one.facts["depth_tokens"] for one in records] == [0, 1, 32, 32]
    assert {one.facts["context_window"] for one in records} == {256}
    assert all(len(one.metrics[0].samples) == 2 for one in records)
    assert lines[0]["kind"] == "progress"
    assert lines[-1]["kind"] == "finished"
    assert Path(lines[-1]["path"]).read_text().count("\n") == 4


@pytest.mark.slow
@pytest.mark.usefixtures("starter_weights")
def test_ctrl_c_keeps_what_was_measured_and_says_that_it_is_not_whole() -> None:
    command = [sys.executable, "-m", "benchmarks", *SMALL, "-r", "1000", "--json", "--progress", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        lines = []
        for text in process.stdout:
            lines.append(json.loads(text))
            if lines[-1].get("done") == 14:
                process.send_signal(signal.SIGINT)

    assert process.returncode == 130
    assert lines[-1]["kind"] == "finished"
    assert lines[-1]["is_whole"] is False
    (run,) = RecordStore(Path(lines[-1]["path"]).parent).runs()
    assert [one.test for one in run.records] == ["pp16", "tg4", "pp16 @ d32", "tg4 @ d32"]
    assert min(len(one.metrics[0].samples) for one in run.records) >= 2


@pytest.mark.slow
@pytest.mark.usefixtures("starter_weights")
def test_latency_keeps_cold_warm_and_cached_apart(run_cli: RunCli) -> None:
    shown = run_cli("bench", "latency", "-p", "48", "-n", "4", "-r", "1", "--json", timeout_s=120)

    document = json.loads(shown.stdout)
    found = {one["configuration"]["prefix"]: one for one in document["records"]}
    phases = {
        state: {metric["name"]: metric["samples"][0] for metric in one["metrics"]}
        for state, one in found.items()
    }
    assert set(found) == {"cold", "warm", "cached"}
    assert [one["facts"]["prompts_off"] for one in found.values()] == [0, 0, 0]
    assert [one["facts"]["early_ends"] for one in found.values()] == [0, 0, 0]
    assert (found["warm"]["facts"]["cached_tokens"], found["cached"]["facts"]["cached_tokens"]) == (0, 47)
    assert phases["cold"]["ttft_load"] > phases["warm"]["ttft_load"]


@pytest.mark.slow
@pytest.mark.usefixtures("starter_weights")
def test_a_sweep_ends_in_its_time_with_a_reason_for_every_setting(run_cli: RunCli) -> None:
    few = ("-p", "16", "-n", "2", "-t", "1", "-fa", "auto,off", "-ctk", "f16", "-c", "256", "-b", "32")

    shown = run_cli("--set", "threads=1", "bench", "sweep", *few, "--budget", "6s", "--json", timeout_s=120)

    document = json.loads(shown.stdout)
    reasons = {one["name"]: one["reason"] for one in document["advice"]["settings"]}
    assert shown.returncode == 0, shown.stderr
    assert list(reasons) == [
        "threads", "batch_tokens", "ubatch_tokens", "flash_attention", "kv_type", "context_window", "gpu_layers"
    ]  # fmt: skip
    assert reasons["batch_tokens"].startswith("32 not measured: a prompt of 16 tokens")
    assert document["advice"]["memory"].startswith("memory: ")
    assert document["records"][-1]["test"] == "recommendation"


@pytest.mark.slow
@pytest.mark.usefixtures("starter_weights")
def test_an_evaluation_names_what_its_time_left_out(run_cli: RunCli) -> None:
    shown = run_cli("bench", "quality", "--budget", "1ms", "--json", timeout_s=120)

    document = json.loads(shown.stdout)
    (left_out,) = [note for note in document["notes"] if "left out" in note]
    assert "exact match" in left_out
    assert "JSON validity, needle retrieval, perplexity" in left_out
    assert (document["is_whole"], document["pareto"]) == (False, [])


async def test_the_client_loses_no_token_of_a_fast_server_over_a_socket() -> None:
    request = LoadRequest(number=0, text="t", input_tokens=7, output_tokens=500, key="k")

    async with mock_server(0.0, 0.0, does_spin=False) as url, HttpTarget(url, "mock") as target:
        answer = await target.answer(request)

    assert (len(answer.trace.chunk_times_s), answer.trace.output_tokens) == (500, 500)
    assert (answer.input_tokens, answer.failure) == (7, "")


def _state() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "appliance" / "benchmarks"


def test_history_compare_and_report_work_on_kept_runs(run_cli: RunCli, tmp_path: Path) -> None:
    store = RecordStore(_state())
    store.append(record(rate(100.0, 101.0, 99.0, 100.0, 100.0), run="20300101-engine-aaaa"))
    store.append(record(rate(150.0, 151.0, 149.0, 150.0, 150.0), run="20300102-engine-bbbb"))

    history = json.loads(run_cli("bench", "history", "--json").stdout)
    compared = json.loads(run_cli("bench", "compare", "last-1", "last", "--json").stdout)
    written = run_cli("bench", "report", "last", "-o", str(tmp_path / "report.html"))

    assert [one["run"] for one in history["runs"]] == ["20300101-engine-aaaa", "20300102-engine-bbbb"]
    assert compared["pairs"][0]["verdict"] == "better"
    assert (written.returncode, "<svg" in (tmp_path / "report.html").read_text()) == (0, True)


WRONG = [
    pytest.param(["engine", "-p", "512,x"], 2, "is no whole number", id="no number"),
    pytest.param(["engine", "-p", "0", "-n", "0"], 1, "nothing to measure", id="nothing"),
    pytest.param(["engine", "-m", "nosuch"], 1, "nosuch", id="no model"),
    pytest.param(["engine", "-d", "1000000"], 1, "not measured", id="deeper than the model"),
    pytest.param(["engine", "--budget", "soon"], 2, "is no time", id="no time"),
    pytest.param(["load", "--goodput", "ttft"], 1, "is no limit", id="no limit"),
    pytest.param(["load", "--url", "host:80"], 1, "is no URL", id="no url"),
    pytest.param(["load", "--url", "http://127.0.0.1:9", "-m", "x"], 1, "does not answer", id="no server"),
    pytest.param(["load", "--url", "http://h/v1?key=secret"], 1, "leave that part out", id="key in the url"),
    pytest.param(["sweep", "-c", "99999"], 2, "was trained for 8192 tokens", id="context too large"),
    pytest.param(["load", "--body", "{}"], 2, "are for --url", id="body without url"),
    pytest.param(["latency", "--url", "http://127.0.0.1:9", "-m", "x", "--states", "cold"], 1, "cannot be unloaded",
                 id="cold server"),
    pytest.param(["compare", "last", "last"], 1, "no run 'last'", id="no run"),
    pytest.param(["quality", "-m", "all-minilm"], 1, "is no GGUF", id="embedder"),
    pytest.param(["selfcheck", "-m", "nosuch"], 1, "nosuch", id="no model to check with"),
    pytest.param(["engin"], 2, "Did you mean", id="misspelt"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG)
@pytest.mark.usefixtures("starter_weights")
def test_wrong_use_is_refused_with_its_cause(
    run_cli: RunCli, arguments: list[str], code: int, words: str
) -> None:
    shown = run_cli("bench", *arguments)

    assert shown.returncode == code, shown.stderr
    assert words in shown.stderr + shown.stdout
    assert "Traceback" not in shown.stderr
