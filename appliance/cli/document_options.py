"""The options with which a question goes to documents, shared by `ask` and `context`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict, TypeVar

import click

CitationModeName = Literal["quotes", "model", "after"]

_Command = TypeVar("_Command", bound=Callable[..., object])


class DocumentFlags(TypedDict):
    """What the options said of where to look."""

    collections: tuple[str, ...]
    search_mode: str
    passages: int
    cite: CitationModeName


class ReadingFlags(TypedDict):
    """What the options said of how much to read."""

    reads_all: bool
    refines: bool
    queries: int


_OPTIONS = (
    click.option("-c", "--collection", "collections", multiple=True, metavar="NAME",
                 help="Answer from the documents of this collection; may be repeated."),
    click.option("--cite", type=click.Choice(["quotes", "model", "after"]), default="quotes",
                 show_default=True, help="With -c: quotes chosen by code before the answer, by the model under "
                 "a grammar, or the answer streamed and checked after."),
    click.option("--mode", "search_mode", type=click.Choice(["hybrid", "dense", "text"]), default="hybrid",
                 show_default=True, help="With -c: search by words and meaning, by meaning, or by words."),
    click.option("-k", "--passages", type=click.IntRange(1, 1000), default=5, show_default=True,
                 help="With -c: passages to read; those that do not fit are cut, and that is said."),
)  # fmt: skip

queries_option = click.option(
    "--queries", type=click.IntRange(0, 10), default=0, metavar="N",
    help="Search also for N other wordings of the question, which the model writes.",
)  # fmt: skip

_READING_OPTIONS = (
    click.option("--all", "reads_all", is_flag=True,
                 help="With -c: read every passage, part by part, and say how many were read."),
    click.option("--refine", "refines", is_flag=True,
                 help="With --all: carry one answer through all parts instead of joining notes on each."),
    queries_option,
)  # fmt: skip


def document_options(command: _Command) -> _Command:
    """Add the options that say where to look."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def reading_options(command: _Command) -> _Command:
    """Add the options that say how much to read."""
    for option in reversed(_READING_OPTIONS):
        command = option(command)
    return command
