"""Real notifications of a real folder, waited for with a deadline."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.retrieval.files import find_changed
from appliance.retrieval.watching import FolderChange, Watcher

DEADLINE_S = 60.0


class Following:
    """Changes of a watcher as they come, in a thread of their own."""

    def __init__(self, *named: Path) -> None:
        self._watcher = Watcher([str(path) for path in named])
        self._stop = threading.Event()
        self._seen: queue.Queue[FolderChange] = queue.Queue()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Following:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def until(self, path: Path) -> FolderChange:
        """Wait for the change that names a path."""
        while True:
            change = self._seen.get(timeout=DEADLINE_S)
            if path in (*change.written, *change.gone):
                return change

    def _follow(self) -> None:
        for change in self._watcher.changes(self._stop):
            self._seen.put(change)


def test_what_happens_before_changes_are_asked_for_is_not_lost(tmp_path: Path) -> None:
    following = Following(tmp_path)
    (tmp_path / "early.txt").write_text("x")
    with following:
        assert tmp_path / "early.txt" in following.until(tmp_path / "early.txt").written


def test_a_file_that_an_editor_replaces_is_still_followed(tmp_path: Path) -> None:
    paper, other = tmp_path / "paper.txt", tmp_path / "paper.txt.new"
    paper.write_text("one")
    with Following(paper) as following:
        for text in ("two", "three"):
            other.write_text(text)
            other.replace(paper)
            assert paper in following.until(paper).written


def test_a_pattern_is_followed_through_its_folder(tmp_path: Path) -> None:
    with Following(tmp_path / "*.md") as following:
        (tmp_path / "new.md").write_text("x")
        change = following.until(tmp_path / "new.md")
    (tmp_path / "other.txt").write_text("y")
    touched = {*change.written, tmp_path / "other.txt"}
    assert [found.path for found in find_changed([str(tmp_path / "*.md")], touched)] == [tmp_path / "new.md"]


def test_a_folder_that_is_moved_in_stands_for_its_files(tmp_path: Path) -> None:
    watched, elsewhere = tmp_path / "watched", tmp_path / "elsewhere"
    watched.mkdir()
    elsewhere.mkdir()
    (elsewhere / "deep.txt").write_text("x")
    (watched / "untouched.txt").write_text("x")
    moved = watched / "moved"
    with Following(watched) as following:
        elsewhere.rename(moved)
        change = following.until(moved)
    assert [found.path for found in find_changed([str(watched)], set(change.written))] == [moved / "deep.txt"]


def test_nothing_to_watch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="nothing to watch"):
        Watcher([str(tmp_path / "nowhere")])


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[queue.Queue[str]]:
    """What `add --watch` says about the folder `papers`, line by line; it is interrupted at the end."""
    (tmp_path / "papers").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "appliance", "add", str(tmp_path / "papers"), "--watch", "--no-vectors"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    said: queue.Queue[str] = queue.Queue()

    def pump() -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                said.put(line)

    pumping = threading.Thread(target=pump, daemon=True)
    pumping.start()
    yield said
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 0
    pumping.join(DEADLINE_S)


def wait_for(lines: queue.Queue[str], *words: str) -> str:
    while True:
        line = lines.get(timeout=DEADLINE_S)
        if all(word in line for word in words):
            return line


@pytest.mark.slow
def test_files_that_appear_change_move_and_go_are_followed_by_the_command(
    tmp_path: Path, lines: queue.Queue[str]
) -> None:
    papers = tmp_path / "papers"
    wait_for(lines, "watching for changes")

    (papers / "leave.md").write_text("# Leave\n\nThirty days.\n")
    (papers / ".leave.md.swp").write_text("what an editor keeps")
    assert "leave.md" in wait_for(lines, "added")
    (papers / "leave.md").write_text("# Leave\n\nThirty-one days.\n")
    assert "leave.md" in wait_for(lines, "updated")
    (papers / "leave.md").rename(papers / "rules.md")
    assert "moved from" in wait_for(lines, "unchanged", "rules.md")
    (papers / "rules.md").unlink()
    assert "the file is gone" in wait_for(lines, "removed", "rules.md")
