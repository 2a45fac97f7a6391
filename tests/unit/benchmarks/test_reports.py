"""Runs as Markdown, CSV, JSON, llama-bench's JSON and HTML; tables; JSON lines of a run that goes on."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError
from benchmarks.llama_bench_columns import lay_beside, read_llama_bench, to_llama_bench
from benchmarks.metrics import FORMULAS
from benchmarks.output import RunOutput
from benchmarks.pareto import SCORE_TESTS
from benchmarks.recorder import Progress
from benchmarks.records import Metric, Record, Run
from benchmarks.report import render
from benchmarks.tables import doubts_of, record_lines
from benchmarks.throttling import falling_share, reasons_of_throttling
from tests.benchmark_records import rate, record, run

ENGINE = {
    "model": "tiny", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "threads": 2, "batch_tokens": 2048,
    "ubatch_tokens": 512, "prefill_chunk_tokens": 256, "flash_attention": "auto", "kv_type": "f16",
    "gpu_layers": -1,
}  # fmt: skip
FACTS = {
    "model_filename": "x.gguf",
    "model_type": "llama Q4_1",
    "model_size": 96,
    "model_n_params": 134_515_008,
    "engine": "llama-cpp-python 0.3.36; CPU : AVX2 = 1 | OPENMP = 1 |",
}


def _engine_record() -> Record:
    return record(configuration=dict(ENGINE), facts=dict(FACTS))


def _latency_record() -> Record:
    ttft = Metric(name="ttft", unit="s", better="lower", samples=(0.1, 0.2, 0.4))
    return record(ttft, test="<warm> & new", suite="latency", doubts=("a <script>alert(1)</script> ran",))


def test_the_html_page_loads_nothing_runs_nothing_and_escapes_what_it_is_given() -> None:
    page = render([run(_engine_record()), run(_latency_record(), name="run-2")], "html")

    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)\s*=|url\(|@import""", page)
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}
    assert "&lt;warm&gt; &amp; new" in page
    assert page.count("<svg") == 2
    assert "default-src 'none'" in page


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_every_report_prints_the_formulas(form: str) -> None:
    page = render([run(_latency_record())], form)

    assert all(name in page for name in FORMULAS)
    assert "(e2el - ttft) / (output_tokens - 1)" in page


def test_csv_has_a_row_for_each_metric_with_its_figures() -> None:
    (row,) = csv.DictReader(io.StringIO(render([run(_latency_record())], "csv")))

    assert (row["metric"], row["unit"], row["n"], float(row["value"])) == ("ttft", "s", "3", 0.2)
    assert float(row["p99"]) == pytest.approx(0.396)


def test_markdown_keeps_its_columns_whatever_a_test_is_called() -> None:
    lines = render([run(record(test="a|b\nc"))], "markdown").splitlines()

    (row,) = [line for line in lines if line.startswith("| a")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 11


def test_json_has_every_sample_and_the_summaries() -> None:
    document = json.loads(render([run(_latency_record())], "json"))

    (found,) = document["runs"][0]["records"]
    assert found["metrics"][0]["samples"] == [0.1, 0.2, 0.4]
    assert found["summaries"]["ttft"]["value"] == 0.2


def test_what_is_written_as_llama_bench_is_read_back_as_the_same_test(tmp_path: Path) -> None:
    path = tmp_path / "ours.json"
    path.write_text(to_llama_bench([_engine_record(), _latency_record()]))

    (row,) = read_llama_bench(path)

    assert (row.n_prompt, row.n_gen, row.n_depth, row.n_threads) == (512, 0, 0, 2)
    assert row.samples_ts == (100.0, 101.0, 99.0, 100.5, 99.5)
    assert json.loads(path.read_text())[0]["avg_ns"] == pytest.approx(5.12e9, rel=0.01)


# As llama-bench of llama.cpp 0c1e570 wrote it, without the columns of options that we do not have.
THEIRS = """[{"build_commit": "0c1e570", "build_number": 1, "cpu_info": "Intel(R) Xeon(R) Processor", "gpu_info": "",
"backends": "CPU", "model_filename": "m.gguf", "model_type": "llama 256M Q4_1", "model_size": 96576768,
"model_n_params": 134515008, "n_batch": 2048, "n_ubatch": 512, "n_threads": 2, "type_k": "f16", "type_v": "f16",
"n_gpu_layers": -1, "flash_attn": -1, "n_prompt": 512, "n_gen": 0, "n_depth": 0,
"test_time": "2026-11-30T12:42:27Z", "avg_ns": 2560000000, "stddev_ns": 9051337, "avg_ts": 200.0,
"stddev_ts": 0.707, "samples_ns": [2560000000, 2547263682, 2572864322, 2553615960, 2566416040],
"samples_ts": [200.0, 201.0, 199.0, 200.5, 199.5]}]"""
SAME = (
    "backends", "model_n_params", "n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_gpu_layers", "flash_attn",
    "n_prompt", "n_gen", "n_depth",
)  # fmt: skip


def test_ours_has_llama_benchs_columns_in_its_types_and_units() -> None:
    (theirs,) = json.loads(THEIRS)
    (ours,) = json.loads(to_llama_bench([_engine_record()]))
    row = {**ours, "build_number": 1, "gpu_info": ""}  # what only llama-bench knows of itself

    assert {name: type(value) for name, value in row.items()} == {
        name: type(value) for name, value in theirs.items()
    }
    for each in (ours, theirs):
        assert each["avg_ts"] == pytest.approx(sum(each["samples_ts"]) / len(each["samples_ts"]))
        assert [512e9 / ns for ns in each["samples_ns"]] == pytest.approx(each["samples_ts"], rel=1e-5)
    assert {name: ours[name] for name in SAME} == {name: theirs[name] for name in SAME}


def test_llama_benchs_figures_are_laid_beside_ours(tmp_path: Path) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(THEIRS)

    (pair,) = lay_beside([_engine_record()], read_llama_bench(path))

    assert (pair.test, pair.ours, pair.theirs, pair.ratio) == ("pp512", 100.0, 200.0, 0.5)
    assert pair.interval is not None
    assert pair.interval.low < 0.5 < pair.interval.high


def test_other_weights_sizes_or_threads_are_not_laid_beside(tmp_path: Path) -> None:
    path = tmp_path / "theirs.json"
    for change in (
        ('"n_threads": 2', '"n_threads": 1'),
        ("134515008", "268098176"),
        ('"n_prompt": 512', '"n_prompt": 8'),
        ('"n_ubatch": 512', '"n_ubatch": 128'),
    ):
        path.write_text(THEIRS.replace(*change))
        assert lay_beside([_engine_record()], read_llama_bench(path)) == []


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"n_prompt": 5}]', THEIRS.replace("200.0", "NaN"), "| t/s |"]
)
def test_a_file_that_llama_bench_did_not_write_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(text or "\x00")

    with pytest.raises(InvalidRequestError, match="llama-bench"):
        read_llama_bench(path)


def test_a_table_says_shared_settings_once_and_doubts_with_their_tests() -> None:
    one = record(configuration={"model": "tiny", "threads": 1}, doubts=("busy", "varies"))
    two = record(configuration={"model": "tiny", "threads": 2}, test="tg128", doubts=("busy",))

    lines = record_lines([one, two])

    assert lines[0] == "engine: model tiny"
    assert "threads 1" in lines[2]
    assert doubts_of([one, two]) == ["busy", "pp512: varies"]


def test_progress_and_records_are_json_lines_and_nothing_else() -> None:
    out, err = io.StringIO(), io.StringIO()
    output = RunOutput(as_json=True, progress="json", out=out, err=err)

    output(Progress(suite="engine", done=1, total=4, text="tg16", figure=51.5, unit="tokens/s"))
    output(_engine_record())
    output.finish("run-1", "run-1.jsonl", [_engine_record()], ["a note"], is_whole=True)

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["kind"] for line in lines] == ["progress", "record", "finished"]
    assert (lines[0]["done"], lines[0]["total"], lines[0]["figure"]) == (1, 4, 51.5)
    assert Record.model_validate(lines[1]) == _engine_record()
    assert err.getvalue() == ""


def test_one_json_object_holds_the_records_when_progress_is_for_people() -> None:
    out = io.StringIO()
    output = RunOutput(as_json=True, progress="none", out=out, err=io.StringIO())

    output(_engine_record())
    output.finish("run-1", "p", [_engine_record()], [], is_whole=False)

    document = json.loads(out.getvalue())
    assert (document["is_whole"], len(document["records"])) == (False, 1)


def test_text_of_a_model_cannot_command_the_terminal() -> None:
    out = io.StringIO()
    output = RunOutput(as_json=False, progress="none", out=out, err=io.StringIO())

    output.finish("run-1", "p", [record(test="\x1b[2Jcleared")], [], is_whole=True)

    assert "\x1b" not in out.getvalue()


def test_rates_that_fall_from_start_to_end_look_like_throttling() -> None:
    falling = [100.0, 99.0, 95.0, 92.0, 88.0, 85.0]

    assert falling_share(falling) == pytest.approx(0.13, abs=0.01)
    assert "throttles" in reasons_of_throttling([falling], throttles=0)[0]


def test_rates_that_go_up_and_down_do_not() -> None:
    assert falling_share([100.0, 80.0, 99.0, 85.0, 98.0, 90.0]) == 0.0
    assert reasons_of_throttling([rate(100.0, 99.0).samples], throttles=0) == []
    assert reasons_of_throttling([], throttles=3) == ["the kernel throttled cores 3 times meanwhile"]


def _speedup(high: float | None) -> Record:
    samples = (1.5, 1.6, 1.4, 1.5, 1.7, 1.55)
    return record(
        Metric(name="speedup", unit="", better="higher", samples=samples),
        suite="sweep",
        facts={"interval_low": 0.25 if high else 0.0, "interval_high": high, "confidence": 0.99},
    )


def test_samples_that_ended_when_they_had_decided_have_the_interval_that_allows_for_it() -> None:
    bounded = _speedup(3.5)
    (row,) = csv.DictReader(io.StringIO(render([run(bounded)], "csv")))
    summary = json.loads(render([run(bounded)], "json"))["runs"][0]["records"][0]["summaries"]["speedup"]

    assert "| 0.25 – 3.5 (99%) |" in render([run(bounded)], "markdown")
    assert (row["low"], row["high"], row["coverage"]) == ("0.25", "3.5", "0.99")
    assert (summary["interval"], summary["coverage"]) == ([0.25, 3.5], 0.99)
    assert any("0.25 – 3.5 (99%)" in line for line in record_lines([bounded]))


def test_samples_too_few_for_such_an_interval_have_none() -> None:
    unbounded = _speedup(None)
    (row,) = csv.DictReader(io.StringIO(render([run(unbounded)], "csv")))
    summary = json.loads(render([run(unbounded)], "json"))["runs"][0]["records"][0]["summaries"]["speedup"]

    assert "1.4 – 1.7" not in render([run(unbounded)], "markdown") + "\n".join(record_lines([unbounded]))
    assert (row["low"], row["high"], summary["interval"]) == ("", "", None)


def _evaluated(name: str, model: str, speed: float, **changes: object) -> Run:
    share = Metric(name="share", unit="share", better="higher", samples=(1.0, 0.0), statistic="mean")
    return run(
        *(
            record(share, rate(speed), test=test, suite="quality", configuration={"model": model}, **changes)
            for test in SCORE_TESTS
        ),
        name=name,
    )


def test_models_of_unlike_machines_are_not_put_into_one_order() -> None:
    here = [_evaluated("run-1", "a", 50.0), _evaluated("run-2", "b", 60.0)]
    elsewhere = _evaluated("run-3", "a", 500.0, processor="Other CPU")

    text = render([*here, elsewhere], "markdown")
    page = render([*here, elsewhere], "html")

    assert "b: 60 tokens/s, score 50%, nothing beats it" in text
    assert "- a: 50 tokens/s, score 50%\n" in text
    assert "of one machine and the same settings: run-1, run-2" in text
    assert "- a: 500 tokens/s, score 50%, nothing beats it" in text
    assert "over all runs of one machine and the same settings: run-1, run-2" in page
    assert "run-1, run-2, run-3" not in page


def test_more_lines_than_a_plot_can_hold_fill_another_plot() -> None:
    records = [
        record(Metric(name="itl", unit="s", better="lower", samples=(0.1, 0.2)), test=f"test {number}")
        for number in range(8)
    ]

    page = render([run(*records)], "html")

    assert page.count("<svg") == 2
    assert "itl: share of samples at or below, 2 of 2" in page
    assert all(f">test {number} " in page or f">test {number}<" in page for number in range(8))


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_report_says_what_was_found_of_noise_and_that_nothing_was(form: str) -> None:
    quiet = render([run(_engine_record())], form)
    noisy = render([run(record(doubts=("other programs used 40% of the CPU",)))], form)

    assert "Noise: none was found" in quiet
    assert "Doubt: other programs used 40%" in noisy
    assert "Noise: none" not in noisy


def test_a_doubt_of_many_tests_is_told_with_their_number() -> None:
    records = [record(test=f"pp{number}", doubts=("busy",) if number < 5 else ()) for number in range(6)]

    assert doubts_of(records) == ["5 of 6 tests: busy"]


def test_tests_of_one_name_are_told_apart_by_their_settings() -> None:
    one = record(configuration={"model": "tiny", "threads": 1}, doubts=("varies",))
    two = record(configuration={"model": "tiny", "threads": 2})

    assert doubts_of([one, two]) == ["pp512 (threads 1): varies"]


def test_doubts_that_differ_in_a_number_are_one_doubt() -> None:
    records = [record(test=f"pp{share}", doubts=(f"others used {share}%",)) for share in (7, 40, 12)]

    assert doubts_of(records) == ["for instance others used 40%"]
