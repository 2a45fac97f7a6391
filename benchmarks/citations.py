"""Measures answers from documents on XQuAD: quotes that are verbatim, quotes that hold the answer, refusals.

    python -m benchmarks.citations --data FOLDER [--questions 200] [--removed 50] [--json FILE]

FOLDER holds `corpus.jsonl` and `queries.jsonl`. A shown quote counts as verbatim when an independent look at
the stored document finds it at the very characters and pages that are named. `--model none` leaves out the
model: what code alone chooses and refuses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from appliance.config import load_settings

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.context.answers import CitationMode, DocumentAnswer
    from appliance.context.asking import DocumentAsker
    from appliance.gateway import Gateway
    from appliance.retrieval.library import Library
    from appliance.retrieval.trace import SearchMode

_COLLECTION = "xquad"
_SILENT = "scripted:silent"
_OWNER = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, its answer, and the paragraph that holds it."""

    text: str
    answer: str
    paragraph: str


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of one run."""

    search_mode: str
    cite: str
    model: str
    questions: int = 0
    refused: int = 0
    quoted_only: int = 0
    quotes: int = 0
    verbatim_quotes: int = 0
    unverified_quotes: int = 0
    gold_in_quote: int = 0
    gold_in_code_quote: int = 0
    gold_in_model_quote: int = 0
    gold_in_first_quote: int = 0
    gold_in_text: int = 0
    right_receipts: int = 0
    seconds: float = 0.0

    def add(self, question: Question, answer: DocumentAnswer, library: Library) -> None:
        """Count one answer."""
        self.questions += 1
        self.refused += answer.kind == "refused"
        self.quoted_only += answer.kind == "quoted_only"
        gold = question.answer.lower()
        shown = [one for one in answer.citations if one.is_shown_as_true]
        holding = [one for one in shown if gold in one.citation.quote.lower()]
        self.quotes += len(shown)
        self.unverified_quotes += len(answer.citations) - len(shown)
        self.verbatim_quotes += sum(_is_verbatim(library, one.citation) for one in shown)
        self.gold_in_quote += bool(holding)
        self.gold_in_code_quote += any(one.chosen_by == "code" for one in holding)
        self.gold_in_model_quote += any(one.chosen_by == "model" for one in holding)
        self.gold_in_first_quote += any(one.number == 1 for one in holding)
        self.gold_in_text += answer.kind != "refused" and gold in answer.text.lower()
        receipt = answer.receipt
        self.right_receipts += receipt is None or receipt.total_tokens == answer.usage.input_tokens

    def line(self) -> str:
        """Return the counts as one line."""
        return (
            f"{self.search_mode:<7} {self.cite:<7} {self.questions:>4} questions: "
            f"quotes verbatim {self.verbatim_quotes}/{self.quotes}, gold in a quote {self.gold_in_quote} "
            f"(first {self.gold_in_first_quote}, code's {self.gold_in_code_quote}, model's "
            f"{self.gold_in_model_quote}), gold in the text {self.gold_in_text}, quoted only {self.quoted_only}, "
            f"refused {self.refused}, receipts exact {self.right_receipts}, {self.seconds:.0f} s"
        )


def main() -> None:
    """Run from the command line."""
    options = _options()
    questions = [
        question
        for question in _questions(options.data)
        if int(question.paragraph.removeprefix("p")) >= options.first_paragraph
    ]
    random.Random(options.seed).shuffle(questions)
    settings = load_settings({"context_window": options.context})
    model = _SILENT if options.model == "none" else options.model or settings.model
    tallies: list[Tally] = []
    with _library_folder(options.library) as folder, _open(folder, options.data) as library:
        for mode in options.modes:
            tallies.append(
                asyncio.run(
                    _run(settings, library, questions[: options.questions], mode, options.cite, model)
                )
            )
            print(tallies[-1].line(), flush=True)
    if options.removed:
        with _library_folder(None, copy_of=options.library) as folder, _open(folder, options.data) as library:
            removed = _remove(library, questions, options.removed)
            tallies.append(
                asyncio.run(_run(settings, library, removed, options.modes[0], options.cite, model))
            )
            print(f"document removed: {tallies[-1].line()}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(tally) for tally in tallies], indent=2))


def measure(settings: Settings, data: Path, *, questions: int, seed: int) -> Tally:
    """Count quotes that code alone chooses on a seeded part of the questions, in a library that is thrown away."""
    chosen = _questions(data)
    random.Random(seed).shuffle(chosen)
    with _library_folder(None) as folder, _open(folder, data) as library:
        return asyncio.run(_run(settings, library, chosen[:questions], "hybrid", "quotes", _SILENT))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure answers from documents on XQuAD.")
    parser.add_argument("--data", type=Path, required=True, help="folder of corpus.jsonl and queries.jsonl")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--removed", type=int, default=50, help="questions whose document is removed before")
    parser.add_argument(
        "--first-paragraph",
        type=int,
        default=120,
        help="thresholds were chosen on paragraphs 0 to 119; 0 takes all",
    )
    parser.add_argument("--modes", nargs="+", default=["hybrid", "dense", "text"])
    parser.add_argument("--cite", choices=["quotes", "model", "after"], default="quotes")
    parser.add_argument("--model", default="", help="the model that answers; none leaves it out")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--library", type=Path, help="keep the indexed documents here, for the next run")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the counts here")
    return parser.parse_args()


def _questions(data: Path) -> list[Question]:
    rows = (json.loads(line) for line in (data / "queries.jsonl").read_text("utf-8").splitlines())
    return [Question(text=row["text"], answer=row["answer"], paragraph=row["doc"]) for row in rows]


@contextmanager
def _library_folder(kept: Path | None, *, copy_of: Path | None = None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory() as folder:
        if copy_of is not None:
            shutil.copytree(copy_of, folder, dirs_exist_ok=True)
        yield Path(folder)


@contextmanager
def _open(folder: Path, data: Path) -> Iterator[Library]:
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore
    from appliance.retrieval.files import find_files
    from appliance.retrieval.library import Library

    settings = load_settings()
    embedder = Catalog(ModelStore(settings.models_dir)).local(settings.embedder)
    papers = folder / "papers"
    papers.mkdir(parents=True, exist_ok=True)
    for line in (data / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        path = papers / f"{row['_id']}.txt"
        if not path.exists():
            path.write_text(row["text"], "utf-8")
    with Library.open(
        folder,
        embedder.path,
        embedder_languages=embedder.card.languages,
        threads=settings.threads or 2,
    ) as library:
        library.check()
        library.ingestion.add(find_files([str(papers)]), owner=_OWNER, collection=_COLLECTION)
        library.fill_vectors()
        yield library


def _remove(library: Library, questions: Sequence[Question], count: int) -> list[Question]:
    """Remove the documents of the first questions, and return every question about them."""
    names = {f"{question.paragraph}.txt" for question in questions[: max(1, count // 4)]}
    records = [record for record in library.store.documents(_OWNER) if record.name in names]
    library.remove(_OWNER, records)
    return [question for question in questions if f"{question.paragraph}.txt" in names][:count]


async def _run(
    settings: Settings,
    library: Library,
    questions: Sequence[Question],
    mode: SearchMode,
    cite: CitationMode,
    model: str,
) -> Tally:
    from appliance.context.asking import DocumentAsker
    from appliance.context.question import DocumentQuestion

    tally = Tally(search_mode=mode, cite=cite, model=model)
    gateway = _gateway(settings)
    started_s = perf_counter()
    try:
        asker: DocumentAsker = DocumentAsker(gateway, library)
        for question in questions:
            asked = DocumentQuestion(
                question=question.text,
                model=model,
                collections=(_COLLECTION,),
                mode=cite,
                search_mode=mode,
                passages=3,
            )
            tally.add(question, await asker.answer(asked), library)
    finally:
        await gateway.close()
    tally.seconds = perf_counter() - started_s
    return tally


def _gateway(settings: Settings) -> Gateway:
    from appliance.core.clock import SystemClock
    from appliance.gateway import Gateway
    from appliance.providers.llama_cpp import LlamaCppProvider
    from appliance.providers.local_models import resolver_of
    from appliance.providers.script import Say, ScriptedModel
    from appliance.providers.scripted import ScriptedProvider

    clock = SystemClock()
    silent = ScriptedModel(name=_SILENT, turns=((Say(text=""),),))
    return Gateway([ScriptedProvider([silent], clock), LlamaCppProvider(resolver_of(settings), clock)], clock)


def _is_verbatim(library: Library, citation: object) -> bool:
    from appliance.retrieval.grounding import Citation

    assert isinstance(citation, Citation)
    document = library.store.parsed(_OWNER, citation.document_id)
    if document is None or document.text[citation.start : citation.end] != citation.quote:
        return False
    pages = [
        segment.label
        for segment in document.segments
        if segment.start < citation.end and citation.start < segment.end and segment.kind != "section"
    ]
    return not citation.place or all(page in citation.place for page in (pages[:1] + pages[-1:]))


if __name__ == "__main__":
    main()
