"""What the document commands print: lines for people, objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from time import perf_counter
from types import TracebackType
from typing import Self

import click

from appliance.core.terminal_text import clean_for_terminal
from appliance.retrieval.ingest import FileResult, IngestReport
from appliance.retrieval.records import DocumentRecord, StoredChunk
from appliance.retrieval.trace import CandidateTrace, SearchHit, SearchResult

_CLEAR_LINE = "\r\x1b[K"
_TERMINAL_INTERVAL_S = 0.2
_LINE_INTERVAL_S = 10.0


class IngestLines:
    """Prints a line for every file that was added, failed or skipped, and pages as they are read."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._is_terminal = sys.stderr.isatty() and not is_quiet
        self._shown_at_s = 0.0
        self.results: list[FileResult] = []

    def on_wait(self, pid: int) -> None:
        """Say that another process is adding."""
        if not self._is_quiet:
            click.echo(f"process {pid} is adding files; waiting for it", err=True)

    def on_pages(self, source: str, done: int, total: int) -> None:
        """Show pages of the file in work, in a terminal."""
        if not self._is_terminal or perf_counter() - self._shown_at_s < _TERMINAL_INTERVAL_S:
            return
        self._shown_at_s = perf_counter()
        name = clean_for_terminal(source.rpartition("/")[2])
        click.echo(f"{_CLEAR_LINE}reading {name}: page {done} of {total}", nl=False, err=True)

    def on_file(self, result: FileResult) -> None:
        """Print what became of a file; unchanged ones are only counted."""
        self.results.append(result)
        if self._is_quiet or (result.outcome == "unchanged" and not result.message):
            return
        if self._is_terminal:
            click.echo(_CLEAR_LINE, nl=False, err=True)
        click.echo(clean_for_terminal(_file_line(result)))


class VectorLine:
    """Shows how far the vectors are and how long they will take."""

    def __init__(self, missing: int, *, is_quiet: bool = False) -> None:
        self._missing = missing
        self._is_quiet = is_quiet
        self._is_terminal = sys.stderr.isatty() and not is_quiet
        self._started_at_s = perf_counter()
        self._shown_at_s = self._started_at_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_terminal and self._missing:
            click.echo(_CLEAR_LINE, nl=False, err=True)

    def on_progress(self, done: int, left: int) -> None:
        """Show the numbers, not more often than a reader can follow."""
        now_s = perf_counter()
        interval_s = _TERMINAL_INTERVAL_S if self._is_terminal else _LINE_INTERVAL_S
        if self._is_quiet or now_s - self._shown_at_s < interval_s:
            return
        self._shown_at_s = now_s
        left_s = left * (now_s - self._started_at_s) / max(1, done)
        line = f"vectors: {done} of {done + left} passages, about {_duration(left_s)} left"
        if self._is_terminal:
            click.echo(_CLEAR_LINE + line, nl=False, err=True)
        else:
            click.echo(line, err=True)


def summary_line(report: IngestReport) -> str:
    """Return the sum: files in are added and unchanged and failed and skipped."""
    updated = report.count("updated")
    added = report.count("added") + updated
    text = (
        f"{counted(len(report.results), 'file')}: {added} added{f' ({updated} of them changed)' if updated else ''}, "
        f"{report.count('unchanged')} unchanged, {report.count('failed')} failed, {report.count('skipped')} skipped"
    )
    return f"{text}; stopped, run the same command again to go on" if report.is_stopped else text


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 page`, `2 pages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def documents_table(records: Sequence[DocumentRecord]) -> str:
    """Return documents as a table, problems below their row."""
    rows: list[tuple[str, ...]] = [("ID", "COLLECTION", "PAGES", "PASSAGES", "STATE", "PATH")]
    notes: list[str] = [""]
    for record in records:
        rows.append(
            (
                record.document_id[:8],
                clean_for_terminal(record.collection),
                str(record.page_count or "-"),
                str(record.chunk_count),
                _state(record),
                clean_for_terminal(record.source).replace("\n", " "),
            )
        )
        notes.append(clean_for_terminal("; ".join(_remarks(record))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for row, note in zip(rows, notes, strict=True):
        lines.append("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        if note:
            lines.append(f"          {note}")
    return "\n".join(lines)


def search_lines(result: SearchResult, *, is_explained: bool) -> Iterator[str]:
    """Yield the lines of a search: passages, then what a reader must know."""
    for number, hit in enumerate(result.hits, start=1):
        yield from _hit_lines(number, hit)
    if not result.hits:
        yield f"nothing found in {result.trace.searched_chunks} passages"
    if is_explained:
        yield from _explained(result)
    for note in result.trace.notes:
        yield f"note: {note}"


def search_json(result: SearchResult) -> dict[str, object]:
    """Return a search as an object: passages with exact spans, and the trace."""
    return {
        "hits": [
            {
                "score": hit.score,
                "similarity": hit.similarity,
                **_chunk_json(hit.chunk),
                "before": [_chunk_json(chunk) for chunk in hit.before],
                "after": [_chunk_json(chunk) for chunk in hit.after],
            }
            for hit in result.hits
        ],
        "trace": asdict(result.trace),
    }


def record_json(record: DocumentRecord) -> dict[str, object]:
    """Return a document as an object."""
    return asdict(record)


def file_result_json(result: FileResult) -> dict[str, object]:
    """Return the outcome of a file as an object."""
    return asdict(result)


def _chunk_json(chunk: StoredChunk) -> dict[str, object]:
    return {
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "collection": chunk.collection,
        "source": chunk.source,
        "place": chunk.place,
        "heading_path": list(chunk.heading_path),
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
    }


def _file_line(result: FileResult) -> str:
    head = f"{result.outcome:<9}  {result.source}".replace("\n", " ")
    facts: list[str] = []
    if result.outcome in ("added", "updated"):
        if result.page_count:
            facts.append(counted(result.page_count, "page"))
        facts.append(counted(result.chunk_count, "passage"))
    if result.message:
        facts.append(result.message)
    facts += result.notices
    return f"{head}  ({'; '.join(facts)})" if facts else head


def _state(record: DocumentRecord) -> str:
    if record.state == "failed":
        return "failed"
    if record.reason:
        return "outdated"
    return "text only" if record.missing_vectors else "ready"


def _remarks(record: DocumentRecord) -> list[str]:
    remarks = [record.message] if record.message else []
    if record.missing_vectors and record.state == "ready":
        remarks.append(f"{record.missing_vectors} of {record.chunk_count} passages have no vector yet")
    return [*remarks, *record.notices]


def _hit_lines(number: int, hit: SearchHit) -> Iterator[str]:
    chunk = hit.chunk
    place = f", {chunk.place}" if chunk.place else ""
    path = f"  {' > '.join(chunk.heading_path)}" if chunk.heading_path else ""
    yield f"[{number}] {chunk.source}{place}  (score {hit.score:.3f}){path}"
    for neighbour in hit.before:
        yield from (f"    . {line}" for line in neighbour.text.splitlines())
    yield from (f"    {line}" for line in chunk.text.splitlines())
    for neighbour in hit.after:
        yield from (f"    . {line}" for line in neighbour.text.splitlines())
    yield ""


def _explained(result: SearchResult) -> Iterator[str]:
    trace = result.trace
    yield (
        f"{trace.mode} search, fusion {trace.fusion}, meaning {trace.dense_share:g}, "
        f"{len(trace.candidates)} candidates of {trace.searched_chunks} passages, {trace.duration_s * 1000:.0f} ms"
    )
    for query in trace.queries[1:]:
        yield f"also searched for: {query}"
    yield "place  meaning (rank)   words (rank)   parts   fused   cut              passage"
    for candidate in trace.candidates:
        yield _candidate_line(candidate)


def _candidate_line(candidate: CandidateTrace) -> str:
    rank = f"{candidate.final_rank}" if candidate.final_rank else "-"
    return (
        f"{rank:>5}  {_number(candidate.dense_score)} ({candidate.dense_rank or '-':>3})   "
        f"{_number(candidate.text_score)} ({candidate.text_rank or '-':>3})  {_number(candidate.parts_score)}  "
        f"{_number(candidate.fused_score)}  {candidate.cut or '':<15}  {candidate.source} {candidate.place}"
    )


def _number(value: float | None) -> str:
    return f"{'-':>6}" if value is None else f"{value:6.3f}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
