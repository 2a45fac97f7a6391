"""How fast text becomes searchable, and how fast its vectors follow: `python -m benchmarks.ingest`.

Ordinary text of common words is added through the product's own door, as a few large files and as many small
ones; then vectors are filled for as long as asked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from time import perf_counter

from appliance.app import open_library
from appliance.config import load_settings
from appliance.retrieval.files import find_files
from appliance.retrieval.library import Library
from benchmarks.exact_text import WORDS

_WORDS = WORDS.split()
_SENTENCE_WORDS = (6, 22)
_PARAGRAPH_SENTENCES = (2, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestFigures:
    """What one set of files measured. `load_average` is that of the last minute when it began."""

    files: int
    text_mb: float
    chunks: int
    text_s: float
    text_mb_per_s: float
    again_s: float
    vectors: int
    vectors_s: float
    vectors_kb_per_s: float
    load_average: float


def measure(files: int, file_bytes: int, vector_s: float, folder: Path, *, seed: int = 1) -> IngestFigures:
    """Add files that are written first, look at them once more, and fill vectors for a while."""
    papers = folder / "papers"
    papers.mkdir()
    random = Random(seed)
    size_bytes = sum(_write(papers / f"{number:05}.txt", file_bytes, random) for number in range(files))
    load_average = os.getloadavg()[0]
    settings = replace(load_settings(), data_dir=folder / "data", index_uri="")
    with open_library(settings) as library:
        library.check()
        text_s = _add(library, papers)
        again_s = _add(library, papers)
        chunks = library.store.counts("local").chunks
        vectors, vectors_s = _fill(library, vector_s)
    bytes_of_chunk = size_bytes / max(chunks, 1)
    return IngestFigures(
        files=files,
        text_mb=size_bytes / 1e6,
        chunks=chunks,
        text_s=text_s,
        text_mb_per_s=size_bytes / 1e6 / text_s,
        again_s=again_s,
        vectors=vectors,
        vectors_s=vectors_s,
        vectors_kb_per_s=vectors * bytes_of_chunk / 1e3 / vectors_s if vectors else 0.0,
        load_average=load_average,
    )


def _add(library: Library, papers: Path) -> float:
    started_s = perf_counter()
    library.ingestion.add(find_files([str(papers)]), owner="local", collection="benchmark")
    return perf_counter() - started_s


def _fill(library: Library, for_s: float) -> tuple[int, float]:
    started_s = perf_counter()
    if for_s <= 0:
        return 0, 0.0
    filled = library.fill_vectors(should_stop=lambda: perf_counter() - started_s > for_s)
    return filled.done, perf_counter() - started_s


def _write(path: Path, size_bytes: int, random: Random) -> int:
    paragraphs: list[str] = []
    written = 0
    while written < size_bytes:
        sentences = [_sentence(random) for _ in range(random.randint(*_PARAGRAPH_SENTENCES))]
        paragraphs.append(" ".join(sentences))
        written += len(paragraphs[-1]) + 2
    text = "\n\n".join(paragraphs) + "\n"
    path.write_text(text, encoding="utf-8")
    return len(text)


def _sentence(random: Random) -> str:
    words = random.choices(_WORDS, k=random.randint(*_SENTENCE_WORDS))
    return f"{' '.join(words).capitalize()}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure large and small files and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=5.0, help="text of each set of files")
    parser.add_argument(
        "--vectors", type=float, default=30.0, help="seconds to fill vectors for, after each set"
    )
    options = parser.parse_args(arguments)
    for files in (5, 1_000):
        with tempfile.TemporaryDirectory() as folder:
            file_bytes = int(options.megabytes * 1e6 / files)
            figures = measure(files, file_bytes, options.vectors, Path(folder))
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
