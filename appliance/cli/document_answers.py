"""Asks documents from the command line and prints the answer with its citations, or one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from appliance.cli.context import receipt_lines
from appliance.cli.document_options import DocumentFlags
from appliance.cli.documents import open_library
from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_OK
from appliance.cli.generation import GenerationFlags, sampling_of
from appliance.cli.leaving import note_where_data_goes
from appliance.cli.screen import AnswerScreen
from appliance.context.answers import DocumentAnswer, NumberedCitation
from appliance.context.question import DocumentQuestion
from appliance.context.whole import WholeAnswer, WholeMethod
from appliance.core.errors import error_of
from appliance.core.events import StreamEvent, TextDelta
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.core.requests import SamplingParams


class QuestionFlags(GenerationFlags, DocumentFlags):
    """The options a question to documents is made of."""


_VERDICTS = {
    "verified": "verified",
    "near": "verified; white space or hyphens differ",
    "wrong_source": "verified; the model named another source",
    "absent": "UNVERIFIED: not in the documents",
}


def ask_documents(
    settings: Settings, question: str, flags: QuestionFlags, *, queries: int, as_json: bool
) -> int:
    """Answer from documents and print; the exit code is 1 when the model failed."""
    asked = replace(document_question(settings, question, flags), other_wordings=queries)
    is_streamed = flags["cite"] == "after" and not as_json
    screen = AnswerScreen(shows_text=is_streamed, shows_reasoning=flags["shows_reasoning"], ends_line=True)
    answer = asyncio.run(_answer(settings, asked, screen))
    if as_json:
        click.echo(json.dumps(answer.to_json(), ensure_ascii=sys.stdout.isatty()))
        return EXIT_FAILURE if answer.failure else EXIT_OK
    for line in answer_lines(answer, is_streamed=is_streamed and bool(answer.model_text)):
        click.echo(clean_for_terminal(line))
    for note in answer.notes:
        screen.note(f"note: {note}")
    if flags["shows_stats"] and answer.receipt is not None:
        for line in (*receipt_lines(answer.receipt), _cost_line(answer)):
            screen.note(line)
    if answer.failure:
        raise error_of(answer.failure)
    return EXIT_OK


def read_whole(
    settings: Settings, question: str, flags: QuestionFlags, method: WholeMethod, *, as_json: bool
) -> int:
    """Answer from every passage and print with what was read."""
    asked = document_question(settings, question, flags)
    screen = AnswerScreen(shows_text=False)
    answer = asyncio.run(_read(settings, asked, method, screen))
    if as_json:
        click.echo(json.dumps(answer.to_json(), ensure_ascii=sys.stdout.isatty()))
        return EXIT_OK if answer.coverage.is_whole else EXIT_FAILURE
    for line in (answer.text, "", f"({answer.coverage})", *_citation_lines(answer.citations)):
        click.echo(clean_for_terminal(line))
    for failure in answer.failures:
        screen.note(f"note: {failure}")
    return EXIT_OK if answer.coverage.is_whole else EXIT_FAILURE


def document_question(settings: Settings, question: str, flags: QuestionFlags) -> DocumentQuestion:
    """Make the question of what the options said. Without a stated temperature it is greedy."""
    sampling = _stated_sampling(settings, flags)
    if settings.source_of("temperature") == "default":
        sampling = replace(sampling, temperature=0.0)
    mode = flags["search_mode"]
    return DocumentQuestion(
        question=question,
        model=settings.model,
        collections=flags["collections"],
        mode=flags["cite"],
        search_mode="dense" if mode == "dense" else "text" if mode == "text" else "hybrid",
        passages=flags["passages"],
        system=flags["system"] or "",
        sampling=sampling,
    )


def _stated_sampling(settings: Settings, flags: GenerationFlags) -> SamplingParams:
    return sampling_of(settings.default_sampling(), **flags)


def answer_lines(answer: DocumentAnswer, *, is_streamed: bool) -> Iterator[str]:
    """Yield the lines of an answer: its text unless that was streamed, then citations with their quotes."""
    if answer.kind == "refused":
        yield from ("", answer.evidence.refusal) if is_streamed else (answer.evidence.refusal,)
        return
    if not is_streamed:
        yield answer.text
    elif answer.kind == "quoted_only":
        yield f"\nNothing of this stands in the documents. They say: {answer.text}"
    else:
        yield from _unsupported_lines(answer)
    yield from _citation_lines(answer.citations)
    if answer.kind == "quoted_only" and answer.model_text and not is_streamed:
        yield f"\nThe model's own words are not in the documents: {' '.join(answer.model_text.split())}"


def _cost_line(answer: DocumentAnswer) -> str:
    usage, timings = answer.usage, answer.timings
    return (
        f"{usage.input_tokens} tokens in ({usage.cached_tokens} cached) · {usage.output_tokens} out · "
        f"search {answer.search.duration_s:.2f} s · first token {timings.ttft_s:.2f} s · {timings.total_s:.2f} s"
    )


def _unsupported_lines(answer: DocumentAnswer) -> Iterator[str]:
    supported = sum(sentence.is_supported for sentence in answer.sentences)
    yield f"\n{supported} of {len(answer.sentences)} sentences stand in the documents"
    for sentence in answer.sentences:
        marks = "".join(f"[{number}]" for number in sentence.numbers) or "UNVERIFIED"
        yield f"  {marks}  {' '.join(sentence.text.split())}"


def _citation_lines(citations: Sequence[NumberedCitation]) -> Iterator[str]:
    for one in citations:
        citation = one.citation
        place = f", {citation.place}" if citation.place else ""
        yield f"\n[{one.number}] {citation.source or 'no document'}{place}  ({_VERDICTS[citation.verdict]})"
        yield from (f"    {line}" for line in f"“{citation.quote}”".splitlines())


async def _answer(settings: Settings, asked: DocumentQuestion, screen: AnswerScreen) -> DocumentAnswer:
    from appliance.app import build_appliance

    def show(event: StreamEvent) -> None:
        if asked.mode == "after" or not isinstance(event, TextDelta):
            screen.show(event)

    with open_library(settings) as library:
        async with build_appliance(settings) as appliance:
            await note_where_data_goes(appliance, asked.model, screen)
            try:
                return await appliance.document_asker(library).answer(asked, show)
            finally:
                screen.finish()


async def _read(
    settings: Settings, asked: DocumentQuestion, method: WholeMethod, screen: AnswerScreen
) -> WholeAnswer:
    from appliance.app import build_appliance

    with open_library(settings) as library:
        async with build_appliance(settings) as appliance:
            await note_where_data_goes(appliance, asked.model, screen)
            reader = appliance.document_asker(library).whole_reader()
            return await reader.read(
                asked,
                method,
                on_progress=lambda done, all_: screen.progress(f"read {done} of {all_} passages"),
            )
