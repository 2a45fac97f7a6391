from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.retrieval.files import find_files
from appliance.retrieval.library import Library
from appliance.retrieval.search import SearchRequest

OWNER = "local"
FILES = 12


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:02}.txt").write_text(f"Fact number {number} tells about subject{number} alone.\n")
    return folder


def child(
    data: Path, embedder: Path, folder: Path, *, files: int = 0, vectors: int = 0
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.failure.retrieval.ingest_workload", str(data), str(embedder), str(folder),
         str(files), str(vectors)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip


def assert_whole(data: Path, embedder: Path, folder: Path) -> None:
    """Everything is there once, in SQLite, in words and in vectors, after one more run."""
    with Library.open(data, embedder, threads=1) as library:
        library.check()
        report = library.ingestion.add(find_files([str(folder)]), owner=OWNER, collection="c")
        library.fill_vectors()
        assert report.count("added") + report.count("unchanged") == FILES
        assert library.store.counts(OWNER).chunks == FILES
        assert library.index.words.count() == library.index.vectors.count() == FILES
        for number in range(FILES):
            hits = library.searcher.search(SearchRequest(question=f"subject{number}", owner=OWNER)).hits
            assert hits[0].chunk.name == f"{number:02}.txt"


@pytest.mark.slow
@pytest.mark.parametrize("files, vectors", [(1, 0), (7, 0), (0, 1)])
def test_a_killed_run_loses_and_doubles_nothing(
    tmp_path: Path, embedder_folder: Path, papers: Path, files: int, vectors: int
) -> None:
    killed = child(tmp_path / "data", embedder_folder, papers, files=files, vectors=vectors)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert_whole(tmp_path / "data", embedder_folder, papers)


@pytest.mark.slow
def test_two_runs_at_once_double_nothing(tmp_path: Path, embedder_folder: Path, papers: Path) -> None:
    children = [child(tmp_path / "data", embedder_folder, papers) for _ in range(2)]
    outputs = [json.loads(process.communicate(timeout=240)[0]) for process in children]
    assert [output for output in outputs if "error" in output] == []
    assert sum(output["added"] for output in outputs) == FILES
    assert sum(output["unchanged"] for output in outputs) == FILES
    assert_whole(tmp_path / "data", embedder_folder, papers)


@pytest.mark.slow
def test_a_full_disk_is_said_and_a_later_run_completes(tmp_path: Path, embedder_folder: Path) -> None:
    script = (
        "set -e; mkdir -p $1; mount -t tmpfs -o size=1m tmpfs $1; mkdir $1/data; "
        "$2 -m tests.failure.retrieval.ingest_workload $1/data $3 $4 0 -1; echo; "
        "mount -o remount,size=60m $1; $2 -m tests.failure.retrieval.ingest_workload $1/data $3 $4 0 -1"
    )
    folder = tmp_path / "papers"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.txt").write_text(
            "\n\n".join(f"word{number}x{line} stands in line {line}. " * 20 for line in range(20))
        )
    disk = tmp_path / "disk"
    ran = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script, "bash", str(disk), sys.executable, str(embedder_folder), str(folder)],
        capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=900, check=False,
    )  # fmt: skip
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip("this system lets no user mount a small disk")
    first, second = (json.loads(line) for line in ran.stdout.strip().splitlines())
    assert first["error"] == "StorageError"
    assert "full" in first["message"]
    assert second["added"] + second["unchanged"] == 30


def test_files_that_cannot_be_read_are_each_a_clear_line(
    tmp_path: Path, embedder_folder: Path, papers: Path
) -> None:
    (papers / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    (papers / "empty.docx").touch()
    (papers / "bad\x1b[31mname.txt").write_text("A name with control characters.\n")
    (papers / "gone.txt").symlink_to(tmp_path / "nowhere")
    with Library.open(tmp_path / "data", embedder_folder, threads=1) as library:
        library.check()
        report = library.ingestion.add(find_files([str(papers)]), owner=OWNER, collection="c")
    failed = {Path(result.source).name: result for result in report.results if result.outcome == "failed"}
    assert set(failed) == {"broken.pdf", "empty.docx", "gone.txt"}
    assert all(result.message and result.reason for result in failed.values())
    assert report.count("added") == FILES + 1
    assert len(report.results) == FILES + 4


@pytest.mark.parametrize("name", ["", " x", "a\nb", "x" * 101, "\x1b[31m"])
def test_unusable_collection_names_are_refused(tmp_path: Path, embedder_folder: Path, name: str) -> None:
    with (
        Library.open(tmp_path / "data", embedder_folder, threads=1) as library,
        pytest.raises(InvalidRequestError, match="no usable collection name"),
    ):
        library.ingestion.add([], owner=OWNER, collection=name)


def test_a_damaged_index_folder_is_built_anew(tmp_path: Path, embedder_folder: Path, papers: Path) -> None:
    with Library.open(tmp_path / "data", embedder_folder, threads=1) as library:
        library.check()
        library.ingestion.add(find_files([str(papers)]), owner=OWNER, collection="c")
        library.fill_vectors()
    shutil.rmtree(tmp_path / "data/index/vectors.lance/data")
    for manifest in (tmp_path / "data/index/words.lance/_versions").glob("*.manifest"):
        manifest.write_bytes(b"junk" * 10)
    with Library.open(tmp_path / "data", embedder_folder, threads=1) as library:
        assert library.check().is_needed
    assert_whole(tmp_path / "data", embedder_folder, papers)
