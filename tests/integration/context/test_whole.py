"""Reading everything, part by part, with a script for a model: coverage, joining and failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.context.question import DocumentQuestion
from appliance.core.errors import EngineCrashedError, Failure
from appliance.core.requests import SamplingParams
from appliance.providers.script import Fail
from appliance.retrieval.files import find_files
from appliance.retrieval.grounding import REFUSAL
from appliance.retrieval.library import Library
from tests.integration.context.conftest import MakeAsker

ASKED = DocumentQuestion(
    question="List all rules", model="m", collections=("long",), sampling=SamplingParams(max_tokens=40)
)
SMALL = 400


@pytest.fixture
def long_document(library: Library, tmp_path: Path) -> int:
    """A document of many passages; returns how many."""
    path = tmp_path / "long.txt"
    path.write_text(
        "\n\n".join(
            f"Rule {number} says that door {number} is closed at night. " * 12 for number in range(12)
        )
    )
    library.ingestion.add(find_files([str(path)]), owner="local", collection="long")
    return library.store.counts("local", ("long",)).chunks


@pytest.mark.parametrize("method", ["map_reduce", "refine"])
async def test_every_passage_is_read_and_the_count_is_said(
    long_document: int, asker_of: MakeAsker, method: str
) -> None:
    seen: list[tuple[int, int]] = []
    reader = asker_of("Rule 1 says that door 1 is closed at night.", context_window=SMALL).whole_reader()
    answer = await reader.read(
        ASKED, "refine" if method == "refine" else "map_reduce", on_progress=lambda *read: seen.append(read)
    )

    assert long_document == 7
    assert answer.coverage.is_whole
    assert str(answer.coverage) == f"read {long_document} of {long_document} passages"
    assert answer.notes[0].first == 1
    assert answer.notes[-1].last == long_document
    assert all(
        after.first == before.last + 1 for before, after in zip(answer.notes, answer.notes[1:], strict=False)
    )
    assert seen[-1] == (long_document, long_document)
    assert len(answer.notes) > 2
    assert answer.citations[0].citation.verdict == "verified"
    assert answer.failures == ()


async def test_parts_that_say_nothing_end_in_the_refusal(long_document: int, asker_of: MakeAsker) -> None:
    answer = await asker_of("Nothing.", context_window=SMALL).whole_reader().read(ASKED)

    assert answer.text == REFUSAL
    assert answer.coverage.read_passages == long_document


async def test_a_model_that_always_fails_is_its_error(long_document: int, asker_of: MakeAsker) -> None:
    crash = Fail(failure=Failure(kind="engine_crashed", message="it died"))
    with pytest.raises(EngineCrashedError):
        await asker_of(steps=(crash,)).whole_reader().read(ASKED)


async def test_passages_longer_than_the_window_are_named_and_not_counted_as_read(
    long_document: int, asker_of: MakeAsker
) -> None:
    asked = replace(ASKED, sampling=SamplingParams(max_tokens=20))
    answer = await asker_of("Door 1 is closed.", context_window=170).whole_reader().read(asked)

    assert answer.coverage.read_passages < long_document
    assert any("did not fit" in failure for failure in answer.failures)
