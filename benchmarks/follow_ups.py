"""Measures how often the right passage of XQuAD is found for a follow-up, by how the follow-up is told in full.

    python -m benchmarks.follow_ups --data FOLDER [--model NAME ...] [--library FOLDER]

FOLDER holds `corpus.jsonl`. Each way is one search: the follow-up as it was asked, behind the question before it,
told in full by code, and, for each model named, as that model tells it, alone and beside the follow-up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.config import load_settings
from benchmarks.follow_up_cases import OTHER_PASSAGE, OTHER_SUBJECT, SAME_PASSAGE, FollowUp

if TYPE_CHECKING:
    from appliance.retrieval.library import Library

Tell = Callable[[FollowUp], Sequence[str]]
_GROUPS = {"same passage": SAME_PASSAGE, "other passage": OTHER_PASSAGE, "other subject": OTHER_SUBJECT}
_READ_PASSAGES = 5
_OWNER = "local"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--model", action="append", default=[], help="a model to tell follow-ups; may be repeated"
    )
    parser.add_argument("--library", type=Path, help="keep the library here")
    options = parser.parse_args()
    told = {name: asyncio.run(_told_by_model(name)) for name in options.model}
    with (
        tempfile.TemporaryDirectory() as folder,
        _library(options.library or Path(folder), options.data) as library,
    ):
        for name, tell in _ways(told).items():
            print(_line(library, name, tell), flush=True)


@contextmanager
def _library(folder: Path, data: Path) -> Iterator[Library]:
    """Open a library of the paragraphs, a document each; one that is there is used again."""
    from appliance.app import open_library
    from appliance.retrieval.files import find_files

    papers = folder / "papers"
    papers.mkdir(parents=True, exist_ok=True)
    for line in (data / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        path = papers / f"{row['_id']}.txt"
        if not path.exists():
            path.write_text(row["text"], "utf-8")
    with open_library(replace(load_settings(), data_dir=folder / "data")) as library:
        library.check()
        library.ingestion.add(find_files([str(papers)]), owner=_OWNER, collection="xquad")
        library.fill_vectors()
        yield library


def _ways(told: dict[str, dict[str, str]]) -> dict[str, Tell]:
    from appliance.retrieval.follow_up import told_in_full

    ways: dict[str, Tell] = {
        "as it was asked": lambda case: (case.question,),
        "behind the question before": lambda case: (f"{case.before} {case.question}",),
        "told by code": lambda case: (told_in_full(case.question, [case.before]),),
    }
    for name, written in told.items():
        ways[f"told by {name}"] = lambda case, written=written: (written[case.question],)  # type: ignore[misc]
        ways[f"{name} and as asked"] = lambda case, written=written: (  # type: ignore[misc]
            written[case.question],
            case.question,
        )
    return ways


async def _told_by_model(name: str) -> dict[str, str]:
    """Have a model tell every follow-up, as a route's stage `rewrite` would."""
    from appliance.app import build_appliance
    from appliance.config import Route, RouteCandidate
    from appliance.context.rewriting import QuestionWriter
    from appliance.core.messages import AssistantMessage, UserMessage

    route = Route(name="told", candidates=(RouteCandidate(model=name),), stages={"rewrite": name})
    settings = replace(load_settings({"context_window": 2048}), routes={"told": route})
    async with build_appliance(settings) as appliance:
        writer = QuestionWriter(appliance.gateway, model="told", owner=_OWNER)
        told: dict[str, str] = {}
        for case in (*SAME_PASSAGE, *OTHER_PASSAGE, *OTHER_SUBJECT):
            history = (UserMessage(text=case.before), AssistantMessage(text=case.answer))
            told[case.question] = (await writer.wordings(case.question, history, others=0)).question
        return told


def _line(library: Library, name: str, tell: Tell) -> str:
    parts = []
    for group, cases in _GROUPS.items():
        ranks = [_rank(library, case, tell(case)) for case in cases]
        first = sum(rank == 1 for rank in ranks)
        read = sum(0 < rank <= _READ_PASSAGES for rank in ranks)
        parts.append(f"{group}: first {first}, among {_READ_PASSAGES} {read} of {len(ranks)}")
    return f"{name:<30} {' · '.join(parts)}"


def _rank(library: Library, case: FollowUp, wordings: Sequence[str]) -> int:
    """The place of the right passage, from 1; 0 where it was not found."""
    from appliance.retrieval.search import SearchRequest

    found = library.searcher.search(
        SearchRequest(question=wordings[0], owner=_OWNER, limit=20), wordings=wordings[1:]
    )
    names = [hit.chunk.name for hit in found.hits]
    wanted = f"{case.paragraph}.txt"
    return names.index(wanted) + 1 if wanted in names else 0


if __name__ == "__main__":
    main()
