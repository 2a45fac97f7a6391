"""The side-by-side run as JSON and as a Markdown table."""

import json
from datetime import date
from pathlib import Path

from benchmarks.fingerprint import take_fingerprint
from benchmarks.peers.__main__ import write_readme
from benchmarks.peers.comparison import Pair
from benchmarks.peers.programs import PeerPrograms
from benchmarks.peers.readme import to_readme
from benchmarks.peers.report import to_json, to_markdown
from benchmarks.peers.run import RunPlan, RunRecord, write_atomically
from benchmarks.structured import Round
from benchmarks.structured_cases import Style
from benchmarks.structured_together import Mixture, Together


def record_of(pairs: list[Pair], *, is_complete: bool = True) -> RunRecord:
    return RunRecord(
        plan=RunPlan(models=("m",), rounds=5, threads=2, limit_s=60.0, peer_openmp={}),
        fingerprint=take_fingerprint({"m": "ab"}),
        programs=PeerPrograms(
            folder=Path("bin"),
            library_folders=(Path("lib"),),
            shares_libraries=True,
            flags="-DGGML_NATIVE=ON",
        ),
        pairs=pairs,
        is_complete=is_complete,
    )


def rounds(row: str, ours: float, theirs: float | None) -> list[Pair]:
    return [
        Pair(row=row, model="m", round_number=number, ours=ours, theirs=theirs, details={"kept_tokens": 7})
        for number in range(1, 6)
    ]


def test_a_row_shows_both_figures_the_ratio_its_interval_target_and_verdict() -> None:
    text = to_markdown(record_of(rounds("decode", 98.0, 100.0)))

    (row,) = [line for line in text.splitlines() if line.startswith("| decode of one")]
    assert "98 tokens/s | 100 tokens/s, llama-bench" in row
    assert "0.980 (0.980 – 0.980) | ≥ 0.97 | met |" in row


def test_a_row_without_a_peer_shows_its_target_in_its_own_unit() -> None:
    text = to_markdown(record_of(rounds("delivery", 0.0005, None)))

    assert "| 0.5 ms | – | – | ≤ 2 ms | met |" in text


def test_what_could_not_be_measured_is_said() -> None:
    record = record_of([], is_complete=False)
    record.failures.append("round 1, restart: the worker died")

    text = to_markdown(record)

    assert "- Not measured: round 1, restart: the worker died" in text
    assert "- Doubt: the run was not finished" in text


def _round(style: Style, constrained_s: float) -> Round:
    return Round(
        style=style, constrained_tokens=100, constrained_s=constrained_s, constrained_cpu_s=1.0, forward_passes=12,
        valid=4, free_tokens=100, free_s=2.0, free_cpu_s=1.0, added_token_ms=(1.0,), added_delta_ms=(1.0,),
        server_tokens=50, server_s=1.0,
    )  # fmt: skip


def test_the_section_of_a_readme_has_date_machine_targets_and_structured_output() -> None:
    record = record_of([*rounds("decode", 98.0, 100.0), *rounds("decode_caller", 98.0, 100.0)])
    together = Together(constrained=8, free=8, rounds=(
        Mixture(valid=8, same_as_alone=16, mixed_tokens=90, mixed_s=1.0, all_free_tokens=100, all_free_s=1.0),
    ))  # fmt: skip

    styles = [_round("function call", 1.0), _round("extraction", 4.0)]
    text = to_readme(record, styles, together, cases=4, on=date(2030, 1, 2))

    assert text.startswith("Newest run: 2030-01-02, ")
    assert text.count("| decode of one") == 1
    assert "| function calls | 100.0 tokens/s | 50.0 (2.00 ×) | 50.0 (2.00 ×) | 0.12 |" in text
    assert "| 25.0 tokens/s | 50.0 (0.50 ×) | 50.0 (0.50 ×) | 0.12 |" in text
    assert "8 of 8 answers were valid" in text
    assert "Together: 8 constrained beside 8 free, 1 rounds, 8 of 8 valid" in text
    assert "0.90 times 16 free ones" in text


def test_what_failed_of_structured_output_is_in_every_file(tmp_path: Path) -> None:
    record, saved = record_of([]), list[str]()

    write_readme(tmp_path / "section.md", record, 1, lambda record: saved.append(to_markdown(record)))

    assert "- Not measured: structured output: " in saved[-1]
    assert "- Not measured: structured output: " in (tmp_path / "section.md").read_text()


def test_structured_output_is_not_begun_after_the_time_limit(tmp_path: Path) -> None:
    record = record_of([])
    record.elapsed_s = record.plan.limit_s

    write_readme(tmp_path / "section.md", record, 1, lambda _record: None)

    assert record.failures == ["structured output: ended after 0 rounds, before both together"]


def test_json_holds_every_round_beside_the_summaries() -> None:
    document = json.loads(to_json(record_of(rounds("prefill", 50.0, 40.0))))

    assert [pair["ours"] for pair in document["rounds"]] == [50.0] * 5
    assert document["comparisons"][0]["figure"]["median"] == 1.25
    assert document["fingerprint"]["models"] == {"m": "ab"}


def test_a_file_is_replaced_and_no_draft_is_left(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.write_text("old")

    write_atomically(target, "new")

    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
