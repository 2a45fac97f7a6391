"""`bench rag`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from benchmarks.commands.options import OutputFlags, SettingsSource, output_options

if TYPE_CHECKING:
    from benchmarks.commands.running import SuiteEnd
    from benchmarks.recorder import Recorder


class RagFlags(OutputFlags):
    """Every option of `rag`."""

    data: Path | None
    documents: int
    questions: int
    synthetic_chunks: int


@click.command("rag")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="A folder of corpus.jsonl (or .gz), queries.jsonl and qrels.tsv, as BEIR has them.")  # fmt: skip
@click.option("--documents", default=300, show_default=True, type=click.IntRange(1, 10_000_000),
              help="Most documents of it; those the questions are about are always among them.")  # fmt: skip
@click.option("--questions", default=50, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--synthetic", "synthetic_chunks", default=2000, show_default=True, type=click.IntRange(100, 10_000_000),
              help="Synthetic passages of the index that is always measured.")  # fmt: skip
@output_options
@click.pass_obj
def rag_command(source: SettingsSource, **flags: Unpack[RagFlags]) -> int:
    """Measure documents: MB/s taken in, search latency, nDCG@10, and whether quotes stand where they are said to.

    Nothing touches your own documents. A part of a data set is easier to rank than the whole: compare nDCG only
    between runs of the same part. Citations are measured without a model where questions have answers as text.
    """
    from benchmarks.commands.running import SuiteEnd, digests_of, local_models, run_suite
    from benchmarks.rag import RagPlan, measure_rag

    settings = source.settings()
    (embedder,) = local_models(settings, (settings.embedder,))
    plan = RagPlan(
        settings=settings,
        embedder_folder=embedder.path,
        synthetic_chunks=flags["synthetic_chunks"],
        questions=flags["questions"],
        data=flags["data"],
        documents=flags["documents"],
    )

    def measure(recorder: Recorder) -> SuiteEnd:
        return SuiteEnd(missing=measure_rag(plan, recorder))

    return run_suite("rag", settings, flags, measure, models=digests_of([embedder]))
