"""A library in a folder of its own, with the real embedder, index and parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.retrieval.library import Library


@pytest.fixture
def open_library(tmp_path: Path, embedder_folder: Path) -> Iterator[Callable[[], Library]]:
    """Open the library of this test again and again, as processes would."""
    opened: list[Library] = []

    def open_one() -> Library:
        library = Library.open(tmp_path / "data", embedder_folder, threads=1)
        library.check()
        opened.append(library)
        return library

    yield open_one
    for library in opened:
        library.close()


@pytest.fixture
def library(open_library: Callable[[], Library]) -> Library:
    """A library, empty at first."""
    return open_library()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some documents."""
    made = tmp_path / "papers"
    (made / "deep").mkdir(parents=True)
    (made / "leave.md").write_text(
        "# Leave policy\n\nEvery employee may take thirty days of leave a year.\n\n"
        "## Sick leave\n\nA note of a doctor is needed from day four.\n"
    )
    (made / "deep" / "frist.txt").write_text("Die Kündigungsfrist beträgt drei Monate zum Quartalsende.\n")
    (made / "backup.txt").write_text("数据库的备份每天凌晨两点进行。\n")
    return made
