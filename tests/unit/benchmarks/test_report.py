"""The side-by-side run as JSON and as a Markdown table."""

import json
from pathlib import Path

from benchmarks.fingerprint import take_fingerprint
from benchmarks.peers.comparison import Pair
from benchmarks.peers.programs import PeerPrograms
from benchmarks.peers.report import to_json, to_markdown
from benchmarks.peers.run import RunPlan, RunRecord, write_atomically


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
