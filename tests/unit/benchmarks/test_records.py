from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError, StorageError
from benchmarks.recorder import Recorder
from benchmarks.records import Metric, RecordStore, read_run
from tests.benchmark_records import rate, record


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "benchmarks")
    written = record(rate(1.25, 3.5), facts={"note": "ünïcode", "n": 3}, doubts=("busy",))

    store.append(written)

    assert store.find("run-1").records == (written,)


def test_a_line_that_was_cut_off_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.append(record(test="pp512"))
    store.append(record(test="tg128"))
    path = tmp_path / "run-1.jsonl"
    path.write_text(path.read_text()[:-40])

    run = read_run(path)

    assert [one.test for one in run.records] == ["pp512"]
    assert run.unread_lines == 1


def test_a_record_of_another_version_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    line = record().model_dump_json().replace('"schema_version":1', '"schema_version":2')
    (tmp_path / "run-1.jsonl").write_text(line + "\n" + record().model_dump_json() + "\n")

    run = read_run(tmp_path / "run-1.jsonl")

    assert (len(run.records), run.unread_lines) == (1, 1)


@pytest.mark.parametrize("sample", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_refused(sample: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        rate(sample)


def test_two_metrics_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="share a name"):
        record(rate(1.0), rate(2.0))


@pytest.mark.parametrize(
    ("text", "found"),
    [("last", "20300103-b"), ("last-1", "20300102-a"), ("20300102", "20300102-a"), ("-b", "20300103-b")],
)
def test_a_run_is_found_by_age_and_by_either_end_of_its_name(tmp_path: Path, text: str, found: str) -> None:
    store = RecordStore(tmp_path)
    store.append(record(run="20300102-a"))
    store.append(record(run="20300103-b"))

    assert store.find(text).name == found


@pytest.mark.parametrize(
    ("text", "words"), [("2030", "2 runs are called"), ("last-7", "no run"), ("x", "no run")]
)
def test_a_name_that_means_no_run_or_several_is_refused(tmp_path: Path, text: str, words: str) -> None:
    store = RecordStore(tmp_path)
    store.append(record(run="20300102-a"))
    store.append(record(run="20300103-b"))

    with pytest.raises(InvalidRequestError, match=words):
        store.find(text)


def test_a_run_is_found_by_the_path_of_its_file(tmp_path: Path) -> None:
    RecordStore(tmp_path / "elsewhere").append(record(run="theirs"))

    assert RecordStore(tmp_path / "ours").find(str(tmp_path / "elsewhere" / "theirs.jsonl")).name == "theirs"


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match="cannot be written"):
        RecordStore(tmp_path / "file" / "benchmarks").append(record())


def test_a_damaged_file_is_named_and_the_other_runs_are_listed(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.append(record(run="20300102-a"))
    with (tmp_path / "20300102-a.jsonl").open("ab") as file:
        file.write(b'\n{"broken\nno json \xff\n')
    (tmp_path / "20300103-b.jsonl").mkdir()

    damaged, unreadable = store.runs()

    assert (len(damaged.records), damaged.unread) == (1, (3, 4))
    assert damaged.warnings() == ["20300102-a: 2 lines are no records and left out: line 3, 4"]
    assert "cannot be read" in unreadable.warnings()[0]
    assert "20300103-b" in unreadable.warnings()[0]


def test_many_damaged_lines_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    (tmp_path / "run-1.jsonl").write_text("x\n" * 8)

    assert read_run(tmp_path / "run-1.jsonl").warnings() == [
        "run-1: 8 lines are no records and left out: line 1, 2, 3, 4, 5 …"
    ]


def test_a_folder_is_tried_before_anything_is_measured(tmp_path: Path) -> None:
    RecordStore(tmp_path / "new").check_writable()
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match="cannot be written"):
        RecordStore(tmp_path / "file" / "benchmarks").check_writable()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_record_that_cannot_be_written_is_not_lost_for_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RecordStore(tmp_path / "file")
    recorder = Recorder("engine", store, models={}, seed=1, listen=lambda _event: None)

    kept = recorder.record("pp512", configuration={"model": "m"}, metrics=[rate(1.0)], began_s=0.0)

    assert recorder.records == [kept]
    assert "cannot be written" in str(recorder.unwritten)


def test_groups_divide_the_samples_and_the_value_is_of_the_groups() -> None:
    metric = Metric(name="itl", unit="s", better="lower", samples=(1, 1, 1, 1, 9, 5), groups=(4, 1, 1))

    assert metric.independent == (1, 9, 5)
    assert metric.value == 5
    with pytest.raises(ValueError, match="no division"):
        Metric(name="itl", unit="s", better="lower", samples=(1, 2), groups=(1,))
