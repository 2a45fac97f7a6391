"""`appliance add, docs, search, remove, reindex`: documents and finding passages in them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.document_lines import (
    IngestLines,
    VectorLine,
    counted,
    documents_table,
    file_result_json,
    record_json,
    search_json,
    search_lines,
    summary_line,
)
from appliance.cli.document_options import queries_option
from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from appliance.cli.invocation import Invocation
from appliance.core.errors import ApplianceError
from appliance.core.requests import LOCAL_OWNER
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.context.rewriting import Wordings
    from appliance.retrieval.chunking import ChunkSettings
    from appliance.retrieval.ingest import IngestReport
    from appliance.retrieval.library import Library, VectorFill
    from appliance.retrieval.watching import Watcher

DEFAULT_COLLECTION = "default"

_collection_option = click.option(
    "-c", "--collection", default=DEFAULT_COLLECTION, show_default=True, help="The collection to add to."
)
_collections_option = click.option(
    "-c", "--collection", "collections", multiple=True, help="Only this collection; may be given again."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command("add")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@_collection_option
@click.option("--watch", is_flag=True, help="Stay, and follow changes until Ctrl+C.")
@click.option("--no-vectors", is_flag=True, help="Make text searchable only; a later add fills the vectors.")
@click.option("--retry-failed", is_flag=True, help="Read files again that failed before and did not change.")
@click.option("--strategy", type=click.Choice(["document", "semantic", "recursive", "fixed"]),
              default="document", show_default=True, help="How documents are cut into passages.")  # fmt: skip
@click.option("--max-tokens", type=int, default=0, help="Tokens of a passage; 0 is what the embedder takes.")
@click.option("--overlap", type=int, default=0, help="Tokens that neighbouring passages share.")
@_json_option
@click.pass_obj
def add_command(
    invocation: Invocation,
    *,
    paths: tuple[str, ...],
    collection: str,
    watch: bool,
    no_vectors: bool,
    retry_failed: bool,
    strategy: str,
    max_tokens: int,
    overlap: int,
    as_json: bool,
) -> int:
    """Add files, folders and patterns to a collection.

    Files that did not change are left alone; a changed file takes the place of its old text. Ctrl+C stops
    after the file in work, and the same command goes on from there.
    """
    if watch and as_json:
        raise click.UsageError("--watch prints lines for as long as it runs; leave out --json")
    lines = IngestLines(is_quiet=as_json)
    # The signal is taken before anything is imported or opened: an early Ctrl+C is told what came of it, too.
    with _stopping() as stop:
        try:
            chunking = _chunk_settings(strategy, max_tokens, overlap)
            watcher = _watcher(paths) if watch else None
            with open_library(invocation.settings(), chunking) as library:
                report = _added(library, paths, collection, lines, stop, retry_failed=retry_failed)
                if not as_json:
                    click.echo(summary_line(report))
                filled = None if no_vectors else _fill(library, stop, is_quiet=as_json)
                if as_json:
                    click.echo(_report_json(report, filled))
                if watcher is not None and not stop.is_set():
                    _follow(library, watcher, paths, collection, stop, fills_vectors=not no_vectors)
                    return EXIT_OK
                return _exit_code(report, is_stopped=stop.is_set())
        except KeyboardInterrupt:
            _tell_broken_off(lines, as_json=as_json)
            return EXIT_INTERRUPTED
        except ApplianceError:
            if lines.results:
                _tell_broken_off(lines, as_json=as_json)
            raise


def _watcher(paths: Sequence[str]) -> Watcher:
    from appliance.retrieval.watching import Watcher

    return Watcher(paths)


def _added(
    library: Library,
    paths: Sequence[str],
    collection: str,
    lines: IngestLines,
    stop: threading.Event,
    *,
    retry_failed: bool,
) -> IngestReport:
    from appliance.retrieval.files import find_files

    return library.ingestion.add(
        find_files(paths),
        owner=LOCAL_OWNER,
        collection=collection,
        listener=lines,
        should_stop=stop.is_set,
        retry_failed=retry_failed,
    )


def _tell_broken_off(lines: IngestLines, *, as_json: bool) -> None:
    """Tell what was finished before a second Ctrl+C, or before the disk was full."""
    from appliance.retrieval.ingest import IngestReport

    report = IngestReport(results=tuple(lines.results), is_stopped=True)
    click.echo(_report_json(report, None) if as_json else summary_line(report))


@click.command("docs")
@_collections_option
@_json_option
@click.pass_obj
def docs_command(invocation: Invocation, *, collections: tuple[str, ...], as_json: bool) -> None:
    """List documents with their collection, size, pages and state."""
    from appliance.retrieval.store import DocumentStore
    from appliance.storage.database import STORE_FILE, Database

    settings = invocation.settings()
    if not (settings.data_dir / STORE_FILE).exists():
        click.echo(json.dumps({"documents": []}) if as_json else _NOTHING_YET)
        return
    records = DocumentStore(Database(settings.data_dir / STORE_FILE)).documents(LOCAL_OWNER, collections)
    if as_json:
        click.echo(json.dumps({"documents": [record_json(record) for record in records]}, indent=2))
        return
    click.echo(documents_table(records) if records else _NOTHING_YET)


_NOTHING_YET = "no documents here yet; `appliance add PATH` brings some in"


@click.command("search")
@click.argument("question")
@_collections_option
@click.option("--mode", type=click.Choice(["hybrid", "dense", "text"]), default="hybrid", show_default=True,
              help="By words and meaning, by meaning, or by words.")  # fmt: skip
@click.option("-k", "--limit", type=int, default=5, show_default=True, help="Passages to show.")
@click.option("--fusion", type=click.Choice(["weighted", "rrf"]), default="weighted", show_default=True,
              help="How the two lists become one.")  # fmt: skip
@click.option("--alpha", type=float, default=None, help="Share of meaning against words, 0 to 1.")
@click.option("--diversity", type=float, default=0.0, help="0 to 1: prefer passages unlike those above.")
@click.option("--per-document", type=int, default=0, help="At most this many passages of one document.")
@click.option("--neighbours", type=int, default=0, help="Show this many passages before and after each.")
@queries_option
@click.option("-m", "--model", metavar="NAME", help="With --queries: the model that writes them.")
@click.option("--explain", is_flag=True, help="Show every candidate, its scores, and why it was cut.")
@_json_option
@click.pass_obj
def search_command(
    invocation: Invocation,
    *,
    question: str,
    collections: tuple[str, ...],
    mode: str,
    limit: int,
    fusion: str,
    alpha: float | None,
    diversity: float,
    per_document: int,
    neighbours: int,
    queries: int,
    model: str | None,
    explain: bool,
    as_json: bool,
) -> int:
    """Find the passages that answer a question."""
    from appliance.context.rewriting import Wordings
    from appliance.retrieval.search import SearchRequest

    request = SearchRequest(
        question=question,
        owner=LOCAL_OWNER,
        collections=collections,
        mode="dense" if mode == "dense" else "text" if mode == "text" else "hybrid",
        fusion="rrf" if fusion == "rrf" else "weighted",
        dense_share=alpha,
        limit=limit,
        diversity=diversity,
        per_document=per_document,
        neighbours=neighbours,
    )
    settings = invocation.settings({"model": model})
    with open_library(settings) as library:
        _check_collections(library, collections)
        written = (
            asyncio.run(_wordings(settings, question, queries)) if queries else Wordings(question=question)
        )
        result = library.searcher.search(request, wordings=written.others)
    result = replace(result, trace=replace(result.trace, notes=(*written.notes, *result.trace.notes)))
    if as_json:
        click.echo(json.dumps(search_json(result), indent=2))
        return EXIT_OK
    for line in search_lines(result, is_explained=explain):
        click.echo(clean_for_terminal(line))
    return EXIT_OK if result.hits else EXIT_FAILURE


@click.command("remove")
@click.argument("selectors", nargs=-1, required=True, metavar="DOCUMENT...")
@_collections_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask when several documents are meant.")
@_json_option
@click.pass_obj
def remove_command(
    invocation: Invocation,
    *,
    selectors: tuple[str, ...],
    collections: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> int:
    """Remove documents for good: from the store, the search index and its old versions.

    DOCUMENT is a path, a folder, a file name, a pattern or an id of `appliance docs`. The files themselves
    are not touched.
    """
    with open_library(invocation.settings()) as library:
        records = library.select(LOCAL_OWNER, selectors, collections)
        if len(records) > 1 and not yes and not as_json:
            for record in records:
                click.echo(f"  {clean_for_terminal(record.source)}  ({record.collection})", err=True)
            click.confirm(f"remove these {len(records)} documents?", abort=True, err=True)
        removal = library.remove(LOCAL_OWNER, records)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "removed": [record_json(record) for record in removal.documents],
                    "removed_passages": removal.removed_chunks,
                    "remains": list(removal.remains),
                },
                indent=2,
            )
        )
    else:
        click.echo(
            f"removed {counted(len(removal.documents), 'document')} with "
            f"{counted(removal.removed_chunks, 'passage')}; "
            + ("; ".join(removal.remains) if removal.remains else "nothing of them is left in store or index")
        )
    return EXIT_FAILURE if removal.remains else EXIT_OK


@click.command("reindex")
@click.option("--missing", is_flag=True, help="Fill what is missing only; drop nothing.")
@_json_option
@click.pass_obj
def reindex_command(invocation: Invocation, *, missing: bool, as_json: bool) -> int:
    """Build the search index anew from what is stored, as after a change of embedder or language."""
    from appliance.documents.versions import is_current

    with open_library(invocation.settings()) as library, _stopping() as stop:
        recut = 0 if missing else library.reindex()
        if missing:
            library.index.fill_words()
        filled = _fill(library, stop, is_quiet=as_json)
        if not stop.is_set():
            library.index.settle()
        counts = library.store.counts(LOCAL_OWNER)
        outdated = sum(not is_current(record.parser) for record in library.store.documents(LOCAL_OWNER))
    if as_json:
        click.echo(json.dumps({"documents_cut_anew": recut, "passages": counts.chunks, "vectors": filled.done,
                               "missing_vectors": filled.missing, "documents_to_read_again": outdated}))  # fmt: skip
    else:
        click.echo(f"{counted(counts.chunks, 'passage')} of {counted(counts.documents, 'document')} indexed; "
                   f"{counted(filled.missing, 'vector')} missing")  # fmt: skip
        if outdated:
            click.echo(
                f"{counted(outdated, 'document')} came from older readers; `appliance add` reads them again"
            )
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_OK


def open_library(settings: Settings, chunking: ChunkSettings | None = None) -> Library:
    """Open the library of these settings, checked and repaired.

    Raises:
        ModelNotFoundError: the embedder is not on this machine; says how to get it.
    """
    from appliance import app

    library = app.open_library(settings, chunking)
    try:
        repair = library.check()
    except BaseException:
        library.close()
        raise
    if repair.is_needed:
        click.echo(
            f"repaired the index: {repair.lost_words} passages in full text, {repair.lost_vectors} vectors to fill, "
            f"{repair.leftovers} leftovers removed",
            err=True,
        )
    return library


async def _wordings(settings: Settings, question: str, count: int) -> Wordings:
    from appliance.app import build_appliance
    from appliance.context.rewriting import QuestionWriter

    async with build_appliance(settings) as appliance:
        writer = QuestionWriter(appliance.gateway, model=settings.model, owner=LOCAL_OWNER)
        return await writer.wordings(question, (), others=count)


def _chunk_settings(strategy: str, max_tokens: int, overlap: int) -> ChunkSettings:
    from appliance.retrieval.chunking import ChunkSettings, ChunkStrategy

    strategies: dict[str, ChunkStrategy] = {
        "document": "document", "semantic": "semantic", "recursive": "recursive", "fixed": "fixed"
    }  # fmt: skip
    return ChunkSettings(strategy=strategies[strategy], max_tokens=max_tokens, overlap_tokens=overlap)


def _fill(library: Library, stop: threading.Event, *, is_quiet: bool) -> VectorFill:
    missing = library.store.missing_vectors_of_all()
    with VectorLine(missing, is_quiet=is_quiet) as line:
        filled = library.fill_vectors(line.on_progress, should_stop=stop.is_set)
    if filled.other is not None and not is_quiet:
        click.echo(
            f"process {filled.other.pid} is filling vectors and takes these along; text search works now",
            err=True,
        )
    elif filled.missing and not is_quiet:
        click.echo(f"{filled.missing} vectors are still missing; run the command again to go on", err=True)
    return filled


def _follow(
    library: Library,
    watcher: Watcher,
    paths: Sequence[str],
    collection: str,
    stop: threading.Event,
    *,
    fills_vectors: bool,
) -> None:
    from appliance.retrieval.files import find_changed

    click.echo("watching for changes; Ctrl+C ends it", err=True)
    for change in watcher.changes(stop):
        # First what is new: a file that was moved then keeps its passages.
        files = list(find_changed(paths, set(change.written)))
        if files:
            report = library.ingestion.add(
                files,
                owner=LOCAL_OWNER,
                collection=collection,
                listener=IngestLines(),
                should_stop=stop.is_set,
            )
            click.echo(summary_line(report))
        _remove_gone(library, change.gone, collection)
        if files and fills_vectors:
            _fill(library, stop, is_quiet=False)


def _remove_gone(library: Library, gone: Sequence[Path], collection: str) -> None:
    """Remove the documents of files that are gone, one by one or with their folder."""
    names = set(gone)
    records = [
        record
        for record in library.store.documents(LOCAL_OWNER, (collection,))
        if names & {Path(record.source), *Path(record.source).parents} and not Path(record.source).exists()
    ]
    if records:
        library.remove(LOCAL_OWNER, records)
        for record in records:
            click.echo(f"removed    {clean_for_terminal(record.source)} (the file is gone)")


def _check_collections(library: Library, collections: Sequence[str]) -> None:
    known = library.store.collections(LOCAL_OWNER)
    for name in collections:
        if name not in known:
            listed = ", ".join(known) or "none yet"
            raise click.UsageError(f"there is no collection {name!r}; there are: {listed}")


def _exit_code(report: IngestReport, *, is_stopped: bool) -> int:
    if is_stopped:
        return EXIT_INTERRUPTED
    return EXIT_FAILURE if report.count("failed") else EXIT_OK


def _report_json(report: IngestReport, filled: VectorFill | None) -> str:
    return json.dumps(
        {
            "files": [file_result_json(result) for result in report.results],
            "is_stopped": report.is_stopped,
            "missing_vectors": None if filled is None else filled.missing,
        },
        indent=2,
    )


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Turn the first Ctrl+C into a wish to stop; the second one interrupts."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_interrupt(number: int, frame: object) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        sys.stderr.write("\nstopping after the file in work; Ctrl+C again stops at once\n")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
