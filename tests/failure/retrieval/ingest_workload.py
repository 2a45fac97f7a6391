"""A child process that adds documents and, when told to, dies in the middle."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from appliance.core.errors import ApplianceError
from appliance.retrieval.files import find_files
from appliance.retrieval.ingest import FileResult, QuietListener
from appliance.retrieval.library import Library


class Dying(QuietListener):
    def __init__(self, files: int) -> None:
        self._left = files

    def on_file(self, result: FileResult) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(data: str, embedder: str, folder: str, die_after_files: int, die_after_vectors: int) -> None:
    """Add a folder; below 0 `die_after_vectors` leaves the vectors out."""

    def on_progress(done: int, left: int) -> None:
        if die_after_vectors and done >= die_after_vectors:
            os.kill(os.getpid(), signal.SIGKILL)

    with Library.open(Path(data), Path(embedder), threads=1) as library:
        library.check()
        report = library.ingestion.add(
            find_files([folder]), owner="local", collection="c", listener=Dying(die_after_files)
        )
        if die_after_vectors >= 0:
            library.fill_vectors(on_progress)
        sys.stdout.write(json.dumps({"added": report.count("added"), "unchanged": report.count("unchanged")}))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    except ApplianceError as exc:
        sys.stdout.write(json.dumps({"error": type(exc).__name__, "message": exc.message, "hint": exc.hint}))
