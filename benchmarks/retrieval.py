"""Search latency, recall, memory and disk of the real index over synthetic passages: `python -m benchmarks.retrieval`.

Vectors lie in clusters as embeddings do; texts are words of a Zipf vocabulary. Everything between question
and hits is the product's own code; only the embedder is replaced by one that knows its vectors.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from appliance.documents.model import Paragraph, ParsedDocument, Segment
from appliance.retrieval.chunking import Chunk
from appliance.retrieval.index import RetrievalIndex
from appliance.retrieval.lance import Scope
from appliance.retrieval.search import Searcher, SearchRequest
from appliance.retrieval.store import DocumentStore
from appliance.retrieval.trace import SearchMode
from appliance.storage.database import STORE_FILE, Database

OWNER = "local"
COLLECTION = "benchmark"
DIMENSION = 384
_CHUNKS_OF_DOCUMENT = 1_000
_WORDS_OF_CHUNK = 100
_VOCABULARY = 60_000
_SPREAD = 0.6
_FILLED_AT_ONCE = 5_000
_BLOCK = 100
_BUILT = "built.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalFigures:
    """What one size of index measured. Latencies are of whole searches, in milliseconds."""

    chunks: int
    build_s: float
    recall_at_10: float
    hybrid_p50_ms: float
    hybrid_p95_ms: float
    dense_p50_ms: float
    dense_p95_ms: float
    text_p50_ms: float
    text_p95_ms: float
    peak_resident_mib: float
    index_mib: float
    data_mib: float
    text_mib: float


class SyntheticEmbedder:
    """Vectors by number: a passage's text begins with its number, a question with the one it is near to."""

    max_input_tokens = 256
    dimension = DIMENSION

    def __init__(self, seed: int, chunks: int) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = _normalised(self._random.standard_normal((max(8, chunks // 500), DIMENSION)))
        self._seed = seed
        self.digest = hashlib.sha256(f"synthetic-{seed}-{chunks}".encode()).hexdigest()

    def vectors(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of passages, the same on every call."""
        blocks = {number // _BLOCK for number in numbers}
        made = {block: self._block(block, self._seed) for block in blocks}
        return np.stack([made[number // _BLOCK][number % _BLOCK] for number in numbers])

    def count_tokens(self, text: str) -> int:
        """Count words."""
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of passages."""
        embedded: list[list[float]] = self.vectors([_number(text) for text in texts]).tolist()
        return embedded

    def embed_query(self, text: str) -> list[float]:
        """Return a vector near that of the passage a question names."""
        block, place = divmod(_number(text), _BLOCK)
        near = self._block(block, self._seed)[place] + 0.3 * self._block(block, self._seed + 1)[place]
        embedded: list[float] = _normalised(near).tolist()
        return embedded

    def fits_query(self, text: str) -> bool:
        """Every question fits."""
        return bool(text)

    def _block(self, block: int, seed: int) -> NDArray[np.float32]:
        random = np.random.default_rng((seed, block))
        noise = _normalised(random.standard_normal((_BLOCK, DIMENSION), dtype=np.float32)) * _SPREAD
        return _normalised(self._centres[random.integers(len(self._centres), size=_BLOCK)] + noise)


def measure(chunks: int, queries: int, folder: Path, *, seed: int = 1) -> RetrievalFigures:
    """Build an index of some size, unless the folder holds it, and search it.

    A process of its own builds it, so that the peak of memory is that of searching.
    """
    if not (folder / _BUILT).exists():
        builder = multiprocessing.get_context("spawn").Process(target=_build, args=(folder, chunks, seed))
        builder.start()
        builder.join()
    build_s, text_bytes = json.loads((folder / _BUILT).read_text())
    _say(f"{chunks} chunks built in {build_s:.0f} s")
    embedder = SyntheticEmbedder(seed, chunks)
    index = _open(folder, embedder)
    index.settle()
    random = np.random.default_rng(seed + 1)
    words = _words()
    asked = [int(number) for number in random.integers(0, chunks, queries)]
    questions = [f"{number} {' '.join(words[_zipf(random, 8)])}" for number in asked]
    recall = _recall(index, embedder, chunks, questions[: min(queries, 50)])
    latencies: dict[SearchMode, list[float]] = {
        mode: _latencies(Searcher(index), questions, mode) for mode in ("hybrid", "dense", "text")
    }
    return RetrievalFigures(
        chunks=chunks,
        build_s=build_s,
        recall_at_10=recall,
        hybrid_p50_ms=_percentile(latencies["hybrid"], 50),
        hybrid_p95_ms=_percentile(latencies["hybrid"], 95),
        dense_p50_ms=_percentile(latencies["dense"], 50),
        dense_p95_ms=_percentile(latencies["dense"], 95),
        text_p50_ms=_percentile(latencies["text"], 50),
        text_p95_ms=_percentile(latencies["text"], 95),
        peak_resident_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        index_mib=_size_mib(folder / "index"),
        data_mib=_size_mib(folder) - _size_mib(folder / "index"),
        text_mib=text_bytes / 2**20,
    )


def _build(folder: Path, chunks: int, seed: int) -> None:
    embedder = SyntheticEmbedder(seed, chunks)
    index = _open(folder, embedder)
    started_s = perf_counter()
    text_bytes = _fill(index.store, index, embedder, _words(), np.random.default_rng(seed), chunks)
    index.settle()
    (folder / _BUILT).write_text(json.dumps([perf_counter() - started_s, text_bytes]))


def _open(folder: Path, embedder: SyntheticEmbedder) -> RetrievalIndex:
    index = RetrievalIndex(
        DocumentStore(Database(folder / STORE_FILE)), uri=str(folder / "index"), embedder=embedder
    )
    index.check()
    return index


def _words() -> NDArray[np.str_]:
    return np.array([f"w{number:x}" for number in range(_VOCABULARY)])


def _fill(
    store: DocumentStore,
    index: RetrievalIndex,
    embedder: SyntheticEmbedder,
    words: NDArray[np.str_],
    random: np.random.Generator,
    chunks: int,
) -> int:
    """Store and index all chunks, and return the bytes of their text."""
    text_bytes = 0
    for first in range(0, chunks, _CHUNKS_OF_DOCUMENT):
        numbers = range(first, min(first + _CHUNKS_OF_DOCUMENT, chunks))
        texts = [f"{number} {' '.join(words[_zipf(random, _WORDS_OF_CHUNK)])}" for number in numbers]
        text_bytes += sum(map(len, texts))
        _put(store, f"document-{first}", texts)
        if (first + _CHUNKS_OF_DOCUMENT) % _FILLED_AT_ONCE == 0 or numbers.stop == chunks:
            index.fill_words()
            _fill_vectors(store, index, embedder)
        if first and first % 100_000 == 0:
            index.maintain()
            _say(f"  {first} chunks")
    return text_bytes


def _fill_vectors(store: DocumentStore, index: RetrievalIndex, embedder: SyntheticEmbedder) -> None:
    while chunks := store.without_vector(_FILLED_AT_ONCE):
        index.vectors.add(chunks, embedder.embed([chunk.text for chunk in chunks]))
        store.mark_vectors([chunk.chunk_id for chunk in chunks], embedder.digest)


def _put(store: DocumentStore, name: str, texts: Sequence[str]) -> None:
    whole = "\n".join(texts)
    chunks: list[Chunk] = []
    position = 0
    for ordinal, text in enumerate(texts):
        chunks.append(
            Chunk(
                ordinal=ordinal,
                start=position,
                end=position + len(text),
                text=text,
                heading_path=(),
                prefix="",
                token_count=_WORDS_OF_CHUNK,
            )
        )
        position += len(text) + 1
    document = ParsedDocument(
        name=name,
        media_type="text/plain",
        sha256=hashlib.sha256(whole.encode()).hexdigest(),
        size_bytes=len(whole),
        parser="synthetic-1",
        text=whole,
        segments=(Segment(kind="section", number=1, label="text", start=0, end=len(whole)),),
        blocks=(Paragraph(start=0, end=len(whole)),),
    )
    store.put(
        document_id=name,
        owner=OWNER,
        collection=COLLECTION,
        source=name,
        document=document,
        chunks=chunks,
        chunker="synthetic",
    )


def _recall(
    index: RetrievalIndex, embedder: SyntheticEmbedder, chunks: int, questions: Sequence[str]
) -> float:
    """Share of the ten exactly nearest passages that the index finds."""
    queries = np.array([embedder.embed_query(question) for question in questions], dtype=np.float32)
    best_scores = np.full((len(questions), 10), -2.0, dtype=np.float32)
    best_numbers = np.zeros((len(questions), 10), dtype=np.int64)
    for first in range(0, chunks, _FILLED_AT_ONCE):
        numbers = np.arange(first, min(first + _FILLED_AT_ONCE, chunks))
        scores = np.concatenate([best_scores, queries @ embedder.vectors(list(numbers)).T], axis=1)
        candidates = np.concatenate(
            [best_numbers, np.broadcast_to(numbers, (len(questions), len(numbers)))], axis=1
        )
        order = np.argsort(-scores, axis=1)[:, :10]
        best_scores = np.take_along_axis(scores, order, axis=1)
        best_numbers = np.take_along_axis(candidates, order, axis=1)
    found = 0
    for query, exact in zip(queries, best_numbers, strict=True):
        hits = index.vectors.search(query.tolist(), Scope(owner=OWNER, collections=(COLLECTION,)), 100)[:10]
        stored = index.store.chunks(OWNER, [hit.chunk_id for hit in hits])
        found += len({_number(chunk.text) for chunk in stored.values()} & {int(number) for number in exact})
    return found / (10 * len(questions))


def _latencies(searcher: Searcher, questions: Sequence[str], mode: SearchMode) -> list[float]:
    taken: list[float] = []
    for position, question in enumerate([*questions[:5], *questions]):
        request = SearchRequest(question=question, owner=OWNER, collections=(COLLECTION,), mode=mode)
        started_s = perf_counter()
        searcher.search(request)
        if position >= min(5, len(questions)):
            taken.append((perf_counter() - started_s) * 1000)
    return taken


def _zipf(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    return np.minimum(random.zipf(1.25, count), _VOCABULARY) - 1


def _normalised(values: NDArray[np.float64] | NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.sqrt((values * values).sum(axis=-1, keepdims=True))
    return np.asarray(values / length, dtype=np.float32)


def _number(text: str) -> int:
    return int(text.split(" ", 1)[0])


def _percentile(values: Sequence[float], share: int) -> float:
    return float(np.percentile(values, share))


def _size_mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sizes named on the command line and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 100_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument(
        "--keep", type=Path, help="build in this folder, or measure what an earlier run built"
    )
    options = parser.parse_args(arguments)
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as passing:
            folder = Path(passing) if options.keep is None else options.keep / str(size)
            folder.mkdir(parents=True, exist_ok=True)
            sys.stdout.write(json.dumps(asdict(measure(size, options.queries, folder))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
