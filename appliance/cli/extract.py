"""`appliance extract`: a row of fields from each document, with the words each value stands on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from appliance.cli.invocation import Invocation
from appliance.cli.leaving import note_where_data_goes
from appliance.cli.output_format import format_of_schema
from appliance.cli.screen import AnswerScreen
from appliance.core.errors import InvalidRequestError
from appliance.core.requests import LOCAL_OWNER
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.jobs.extract import Extractor, ExtractTask
    from appliance.jobs.rows import ExtractedRow
    from appliance.retrieval.library import Library
    from appliance.retrieval.records import DocumentRecord

Form = Literal["text", "csv", "jsonl"]


@click.command("extract")
@click.argument("selectors", nargs=-1, metavar="[DOCUMENT...]")
@click.option(
    "--schema",
    required=True,
    metavar="SCHEMA",
    help='The fields of a row: a FILE, inline JSON, module:Class, or "tenant, rent float, start date".',
)
@click.option(
    "-c",
    "--collection",
    "collections",
    multiple=True,
    metavar="NAME",
    help="Every document of this collection; may be repeated.",
)
@click.option("-i", "--instruction", default="", metavar="TEXT", help="A word of yours on what is meant.")
@click.option("-m", "--model", metavar="NAME", help="Model to ask; `appliance list` shows them.")
@click.option("--context", "context_window", type=int, help="Context window to load the model with.")
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Longest row in tokens, for each part that is read."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "csv", "jsonl"]),
    help="What to print; by default text, or what the name of the output file says.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write a new file.")
@click.pass_obj  # fmt: skip
def extract_command(
    invocation: Invocation,
    *,
    selectors: tuple[str, ...],
    schema: str,
    collections: tuple[str, ...],
    instruction: str,
    model: str | None,
    context_window: int | None,
    max_tokens: int | None,
    form: Form | None,
    output: Path | None,
) -> int:
    """Take the fields of a schema out of documents: one row a document.

    DOCUMENT is a path, a folder, a file name, a pattern or an id of `appliance docs`; the documents must have
    been added. Each value is held against the text by code: the row says where it stands word for word, and
    marks what stands nowhere. A field that the document does not state is empty rather than invented. A
    document that does not fit the context window is read in parts.

    Ctrl+C keeps the rows that are done. The exit code is 1 when a document failed or misses a required field.

    \b
    appliance extract -c leases --schema "tenant, rent float, start date" -o leases.csv
    """
    from appliance.jobs.extract import DEFAULT_ANSWER_TOKENS, ExtractTask

    settings = invocation.settings({"model": model, "context_window": context_window})
    if not selectors and not collections:
        raise click.UsageError("name documents, or a collection with -c")
    used_form = form or _form_of(output)
    sampling = replace(
        settings.default_sampling(),
        temperature=0.0 if settings.source_of("temperature") == "default" else settings.temperature,
        max_tokens=max_tokens or DEFAULT_ANSWER_TOKENS,
    )
    task = ExtractTask(
        output=format_of_schema(schema), model=settings.model, instruction=instruction, sampling=sampling
    )
    if output is not None and output.exists():
        raise InvalidRequestError(f"{output} exists already", hint="give another file name")
    screen = AnswerScreen(shows_text=False)
    run = _Run(settings, task, screen, prints=used_form == "text" and output is None)
    try:
        asyncio.run(run.extract(selectors, collections))
    except KeyboardInterrupt:
        run.is_interrupted = True
    finally:
        screen.finish()
    _give(run, used_form, output)
    if run.is_interrupted:
        return EXIT_INTERRUPTED
    return EXIT_OK if all(row.is_valid for row in run.rows) else EXIT_FAILURE


class _Run:
    """One run: its rows so far, so that an interrupt keeps them."""

    def __init__(self, settings: Settings, task: ExtractTask, screen: AnswerScreen, *, prints: bool) -> None:
        self._settings = settings
        self._task = task
        self._screen = screen
        self._prints = prints
        self.names: tuple[str, ...] = ()
        self.rows: list[ExtractedRow] = []
        self.documents = 0
        self.is_interrupted = False

    async def extract(self, selectors: Sequence[str], collections: Sequence[str]) -> None:
        """Read every document that is meant."""
        from appliance.app import build_appliance
        from appliance.cli.documents import open_library

        with open_library(self._settings) as library:
            records = _meant(library, selectors, collections)
            self.documents = len(records)
            async with build_appliance(self._settings) as appliance:
                await note_where_data_goes(appliance, self._task.model, self._screen)
                await self._read(appliance.extractor(library), records)

    async def _read(self, extractor: Extractor, records: Sequence[DocumentRecord]) -> None:
        from appliance.jobs.extract import PartBegun, RowDone

        self.names = (await extractor.check(self._task)).names
        async with aclosing(extractor.run(self._task, records)) as events:
            async for event in events:
                match event:
                    case PartBegun():
                        where = f"document {event.document} of {event.documents}"
                        part = f", part {event.part} of {event.parts}" if event.parts > 1 else ""
                        self._screen.progress(f"{where}{part}: {event.name}")
                    case RowDone(row=row):
                        self._screen.finish()
                        self.rows.append(row)
                        if self._prints:
                            for line in _row_lines(row):
                                click.echo(clean_for_terminal(line))


def _meant(library: Library, selectors: Sequence[str], collections: Sequence[str]) -> list[DocumentRecord]:
    known = library.store.collections(LOCAL_OWNER)
    for name in collections:
        if name not in known:
            raise click.UsageError(
                f"there is no collection {name!r}; there are: {', '.join(known) or 'none yet'}"
            )
    if selectors:
        return library.select(LOCAL_OWNER, selectors, collections)
    return library.store.documents(LOCAL_OWNER, collections)


def _row_lines(row: ExtractedRow) -> Iterator[str]:
    yield row.name
    if row.failure is not None:
        yield f"  failed: {row.failure.message}"
    for one in row.evidence:
        if one.verdict == "empty":
            yield f"  {one.path:<20} –"
            continue
        proof = {"uncheckable": "  (cannot be checked word for word)", "absent": "  NOT IN THE DOCUMENT"}
        quote = " ".join(one.quote.split())
        stands = f"  “{quote}” {one.place}".rstrip()
        yield f"  {one.path:<20} {one.value}{proof.get(one.verdict, stands)}"
    yield from (f"  problem: {problem}" for problem in row.problems)
    yield from (f"  note: {note}" for note in row.notes)


def _form_of(output: Path | None) -> Form:
    match output.suffix.lower() if output else "":
        case ".csv":
            return "csv"
        case ".jsonl" | ".ndjson":
            return "jsonl"
        case "":
            return "text"
        case suffix:
            raise click.UsageError(f"{suffix} says no format; name a .csv or .jsonl file, or give --format")


def _give(run: _Run, form: Form, output: Path | None) -> None:
    from appliance.jobs.rows import to_csv, to_jsonl

    if len(run.rows) < run.documents:
        click.echo(f"{len(run.rows)} of {run.documents} documents are done", err=True)
    if form == "text":
        text = "".join(f"{clean_for_terminal(line)}\n" for row in run.rows for line in _row_lines(row))
    else:
        text = to_csv(run.rows, run.names) if form == "csv" else to_jsonl(run.rows)
    if output is not None:
        try:
            with output.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError as exc:
            raise InvalidRequestError(f"{output} cannot be written: {exc.strerror}") from exc
        click.echo(f"{len(run.rows)} {'row' if len(run.rows) == 1 else 'rows'} written to {output}", err=True)
    elif form != "text":
        click.echo(clean_for_terminal(text) if sys.stdout.isatty() else text, nl=False)
