"""The suite `rag`: how fast documents are taken in and found, how well they are ranked, and whether quotes are true."""

from __future__ import annotations

import gzip
import json
import math
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import get_args

from appliance.config import Settings
from appliance.core.errors import InvalidRequestError
from appliance.retrieval.files import find_files
from appliance.retrieval.library import Library
from appliance.retrieval.search import SearchRequest
from appliance.retrieval.trace import SearchMode
from benchmarks import citations, retrieval
from benchmarks.recorder import Recorder
from benchmarks.records import Better, Metric

_OWNER = "local"
_COLLECTION = "benchmark"
_MODES: tuple[SearchMode, ...] = get_args(SearchMode)
_WARM_UP = 3
RANKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedData:
    """Documents by id, questions by id, and which documents a question is about."""

    documents: Mapping[str, str]
    questions: Mapping[str, str]
    relevant: Mapping[str, frozenset[str]]
    has_answers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RagPlan:
    """What to measure: synthetic passages always, real documents where a folder of them is given."""

    settings: Settings
    embedder_folder: Path
    synthetic_chunks: int
    questions: int
    data: Path | None
    documents: int


def measure_rag(plan: RagPlan, recorder: Recorder) -> list[str]:
    """Run the suite. Returns what could not be measured."""
    recorder.expect(4 if plan.data else 1)
    data = (
        read_ranked_data(plan.data, documents=plan.documents, questions=plan.questions, seed=recorder.seed)
        if plan.data
        else None
    )
    _measure_synthetic(plan, recorder)
    if data is None:
        return ["ingest, nDCG@10 and citations: they need --data FOLDER with corpus, queries and qrels"]
    with tempfile.TemporaryDirectory() as folder:
        _measure_documents(plan, data, Path(folder), recorder)
    if not data.has_answers:
        return ["citations: the questions of this data have no answers as text"]
    _measure_citations(plan, recorder)
    return []


def read_ranked_data(folder: Path, *, documents: int, questions: int, seed: int) -> RankedData:
    """Read `corpus.jsonl` (or `.gz`), `queries.jsonl` and `qrels.tsv`; a seeded part of them where asked.

    Every document that a chosen question is about is among the documents.

    Raises:
        InvalidRequestError: a file is missing or is something else.
    """
    try:
        corpus = {str(row["_id"]): _text_of(row) for row in _rows(folder, "corpus.jsonl")}
        queries = {str(row["_id"]): row for row in _rows(folder, "queries.jsonl")}
        relevant = _read_qrels(folder / "qrels.tsv")
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise InvalidRequestError(
            f"{folder} cannot be read as ranked data: {exc}",
            hint="it holds corpus.jsonl (or .gz), queries.jsonl and qrels.tsv, as the BEIR data sets do",
        ) from exc
    usable = sorted(name for name in queries if relevant.get(name))
    chooser = random.Random(f"rag-{seed}")
    chosen = sorted(chooser.sample(usable, min(questions, len(usable))))
    needed = sorted({document for name in chosen for document in relevant[name] if document in corpus})
    others = sorted(set(corpus) - set(needed))
    filler = chooser.sample(others, min(max(documents - len(needed), 0), len(others)))
    return RankedData(
        documents={name: corpus[name] for name in sorted([*needed, *filler])},
        questions={name: str(queries[name]["text"]) for name in chosen},
        relevant={name: relevant[name] for name in chosen},
        has_answers=all(isinstance(row.get("answer"), str) and "doc" in row for row in queries.values()),
    )


def ndcg(ranked: Sequence[str], relevant: frozenset[str], ranks: int = RANKS) -> float:
    """Normalised discounted cumulative gain with gains of 0 and 1: gain / log2(rank + 1), over the best possible."""
    gained = sum(1 / math.log2(rank + 2) for rank, name in enumerate(ranked[:ranks]) if name in relevant)
    best = sum(1 / math.log2(rank + 2) for rank in range(min(ranks, len(relevant))))
    return gained / best if best else 0.0


def _measure_synthetic(plan: RagPlan, recorder: Recorder) -> None:
    began_s = perf_counter()
    recorder.step(f"index of {plan.synthetic_chunks} synthetic passages")
    doubts = recorder.doubts()
    with doubts.watching(), tempfile.TemporaryDirectory() as folder:
        figures = retrieval.measure(plan.synthetic_chunks, plan.questions, Path(folder), seed=recorder.seed)
    latencies = {
        "hybrid_p50": figures.hybrid_p50_ms, "hybrid_p95": figures.hybrid_p95_ms,
        "dense_p50": figures.dense_p50_ms, "dense_p95": figures.dense_p95_ms,
        "text_p50": figures.text_p50_ms, "text_p95": figures.text_p95_ms,
    }  # fmt: skip
    recorder.record(
        "synthetic index",
        configuration={"chunks": figures.chunks, "questions": plan.questions},
        metrics=[
            *(_single(f"search_{name}", value / 1000, "s", "lower") for name, value in latencies.items()),
            Metric(name="recall_at_10", unit="", better="higher", samples=(figures.recall_at_10,)),
            _single("build", figures.build_s, "s", "lower"),
        ],
        began_s=began_s,
        facts={"index_mib": figures.index_mib, "data_mib": figures.data_mib, "text_mib": figures.text_mib},
        doubts=doubts.reasons(()),
    )
    recorder.advance("index of synthetic passages")


def _measure_documents(plan: RagPlan, data: RankedData, folder: Path, recorder: Recorder) -> None:
    papers = folder / "papers"
    papers.mkdir()
    for name, text in data.documents.items():
        (papers / f"{name}.txt").write_text(text, "utf-8")
    with Library.open(
        folder / "library", plan.embedder_folder, threads=plan.settings.threads or 2
    ) as library:
        library.check()
        _ingest(library, papers, data, recorder)
        _rank(library, data, recorder)


def _ingest(library: Library, papers: Path, data: RankedData, recorder: Recorder) -> None:
    began_s = perf_counter()
    recorder.step(f"taking in {len(data.documents)} documents")
    doubts = recorder.doubts()
    with doubts.watching():
        library.ingestion.add(find_files([str(papers)]), owner=_OWNER, collection=_COLLECTION)
        words_s = perf_counter() - began_s
        library.fill_vectors()
        whole_s = perf_counter() - began_s
    megabytes = sum(len(text.encode()) for text in data.documents.values()) / 1e6
    recorder.record(
        "ingest",
        configuration={"documents": len(data.documents)},
        metrics=[
            _single("ingest_with_vectors", megabytes / whole_s, "MB/s", "higher"),
            _single("ingest_words_only", megabytes / words_s, "MB/s", "higher"),
        ],
        began_s=began_s,
        facts={"megabytes": megabytes},
        doubts=doubts.reasons(()),
    )
    recorder.advance("ingest", figure=megabytes / whole_s, unit="MB/s")


def _rank(library: Library, data: RankedData, recorder: Recorder) -> None:
    for mode in _MODES:
        began_s = perf_counter()
        doubts = recorder.doubts()
        gains: list[float] = []
        latencies_s: list[float] = []
        with doubts.watching():
            questions = list(data.questions.items())
            for number, (name, question) in enumerate([*questions[:_WARM_UP], *questions]):
                started_s = perf_counter()
                ranked = _ranked_documents(library, question, mode)
                if number >= min(_WARM_UP, len(questions)):
                    latencies_s.append(perf_counter() - started_s)
                    gains.append(ndcg(ranked, data.relevant[name]))
        recorder.record(
            f"search {mode}",
            configuration={"mode": mode, "documents": len(data.documents), "questions": len(questions)},
            metrics=[
                Metric(name="search", unit="s", better="lower", samples=tuple(latencies_s)),
                Metric(name="ndcg_at_10", unit="", better="higher", samples=tuple(gains), statistic="mean"),
            ],
            began_s=began_s,
            doubts=doubts.reasons(()),
        )
        recorder.step(f"search {mode}", figure=sum(gains) / len(gains), unit="nDCG@10")
    recorder.advance("search")


def _ranked_documents(library: Library, question: str, mode: SearchMode) -> list[str]:
    """Names of documents by their best passage; several passages of one count once."""
    request = SearchRequest(
        question=question, owner=_OWNER, collections=(_COLLECTION,), mode=mode, limit=RANKS, per_document=1
    )
    hits = library.searcher.search(request).hits
    return list(dict.fromkeys(hit.chunk.name.removesuffix(".txt") for hit in hits))


def _measure_citations(plan: RagPlan, recorder: Recorder) -> None:
    """Quotes that code chooses, without a model: whether each stands in the document where it is said to."""
    assert plan.data is not None
    began_s = perf_counter()
    recorder.step("citations")
    tally = citations.measure(plan.settings, plan.data, questions=plan.questions, seed=recorder.seed)
    verbatim = [1.0] * tally.verbatim_quotes + [0.0] * (tally.quotes - tally.verbatim_quotes)
    gold = [1.0] * tally.gold_in_quote + [0.0] * (tally.questions - tally.gold_in_quote)
    recorder.record(
        "citations",
        configuration={"questions": tally.questions, "mode": tally.search_mode, "cite": tally.cite},
        metrics=[
            Metric(name=name, unit="share", better="higher", samples=tuple(samples), statistic="mean")
            for name, samples in (("quotes_verbatim", verbatim), ("answer_in_quote", gold))
            if samples
        ],
        began_s=began_s,
        facts={"refused": tally.refused, "quotes": tally.quotes},
    )
    recorder.advance("citations")


def _single(name: str, value: float, unit: str, better: Better) -> Metric:
    return Metric(name=name, unit=unit, better=better, samples=(value,))


def _rows(folder: Path, name: str) -> Iterator[dict[str, object]]:
    packed = folder / f"{name}.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / name).read_bytes()
    for number, line in enumerate(data.decode("utf-8").split("\n"), start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict) or "_id" not in row or not {"text", "sentences"} & row.keys():
                raise ValueError(f"line {number} of {name} is no object with _id and text")
            yield row


def _text_of(row: Mapping[str, object]) -> str:
    """Title and text of a document; SciFact's own files hold sentences in place of the text."""
    sentences = row.get("sentences")
    text = (
        row["text"] if "text" in row else " ".join(map(str, sentences if isinstance(sentences, list) else []))
    )
    return f"{row.get('title') or ''}\n{text}".strip()


def _read_qrels(path: Path) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in path.read_text("utf-8").splitlines()[1:]:
        question, document, score = line.split("\t")
        if int(score) > 0:
            found.setdefault(question, set()).add(document)
    return {question: frozenset(documents) for question, documents in found.items()}
