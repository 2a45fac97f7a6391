"""Rows out of real documents, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from appliance.core.clock import VirtualClock
from appliance.core.errors import ApplianceError, Failure
from appliance.gateway import Gateway
from appliance.jobs.extract import Extractor, ExtractTask, PartBegun, RowDone
from appliance.jobs.rows import ExtractedRow
from appliance.providers.script import Fail, Say, ScriptedModel, Step
from appliance.providers.scripted import ScriptedProvider
from appliance.retrieval.files import find_files
from appliance.retrieval.library import Library
from appliance.structured.python_types import format_of_argument

LEASE = (
    "# Lease\n\nThis lease is made between Ada Byron and Müller GmbH.\n\nThe rent is 1,250.00 euro a month.\n"
)
FILLER = "\n".join(
    f"Clause {number} says what is usual in such papers and nothing else at all." for number in range(60)
)


@pytest.fixture
def library(tmp_path: Path, embedder_folder: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "data", embedder_folder, threads=1) as library:
        yield library


def add(library: Library, folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    library.ingestion.add(
        find_files([str(folder / f"{name}.md") for name in texts]), owner="local", collection="c"
    )


async def rows_of(
    library: Library, steps: Sequence[Step], schema: str, *, context_window: int = 4096
) -> tuple[list[ExtractedRow], list[PartBegun]]:
    model = ScriptedModel(name="m", turns=(tuple(steps),), context_window=context_window)
    clock = VirtualClock()
    extractor = Extractor(Gateway([ScriptedProvider([model], clock)], clock), library.store)
    task = ExtractTask(output=format_of_argument(schema), model="m")
    rows, parts = [], []
    async for event in extractor.run(task, library.store.documents("local")):
        match event:
            case RowDone(row=row):
                rows.append(row)
            case PartBegun():
                parts.append(event)
    return rows, parts


def say(**values: object) -> Say:
    return Say(text=json.dumps(values))


async def test_a_row_has_its_values_and_where_each_stands(library: Library, tmp_path: Path) -> None:
    add(library, tmp_path, lease=LEASE)

    (row,), _ = await rows_of(
        library, [say(tenant="Ada Byron", rent=1250, pets=None)], "tenant, rent float, pets?"
    )

    text = library.store.parsed("local", row.document_id)
    assert text is not None
    assert row.values == {"tenant": "Ada Byron", "rent": 1250, "pets": None}
    assert row.is_valid
    assert [(one.path, one.verdict, text.text[one.start : one.end]) for one in row.evidence] == [
        ("tenant", "exact", "Ada Byron"),
        ("rent", "near", "1,250.00"),
        ("pets", "empty", ""),
    ]
    assert row.receipts[0]["is_whole"] is True


async def test_an_invented_value_is_marked_absent(library: Library, tmp_path: Path) -> None:
    add(library, tmp_path, lease=LEASE)

    (row,), _ = await rows_of(library, [say(tenant="Grace Hopper")], "tenant")

    assert [one.path for one in row.absent] == ["tenant"]


async def test_what_the_schema_requires_and_the_document_lacks_is_a_problem(
    library: Library, tmp_path: Path
) -> None:
    add(library, tmp_path, lease=LEASE)

    (row,), _ = await rows_of(library, [say(deposit=None)], "deposit int")

    assert not row.is_valid
    assert row.problems == ("deposit was not found",)


async def test_a_long_document_is_read_in_parts_and_the_part_with_the_words_is_believed(
    library: Library, tmp_path: Path
) -> None:
    add(library, tmp_path, long=f"{FILLER}\n\n{LEASE}")

    (row,), parts = await rows_of(library, [say(tenant="Ada Byron")], "tenant", context_window=1100)

    assert [(one.part, one.parts) for one in parts] == [
        (number, row.parts) for number in range(1, row.parts + 1)
    ]
    assert row.parts > 1
    assert row.evidence[0].verdict == "exact"
    assert all(receipt["is_whole"] for receipt in row.receipts)


async def test_lists_of_all_parts_are_joined_without_repetition(library: Library, tmp_path: Path) -> None:
    add(library, tmp_path, long=f"{FILLER}\n\n{LEASE}")

    (row,), _ = await rows_of(
        library, [say(names=["Ada Byron", "Nobody"])], "names [str]", context_window=1100
    )

    assert row.values["names"] == ["Ada Byron", "Nobody"]
    assert {one.path for one in row.evidence} == {"names[0]", "names[1]"}


async def test_a_document_that_fails_is_a_row_and_the_others_go_on(library: Library, tmp_path: Path) -> None:
    add(library, tmp_path, empty="", lease=LEASE)

    rows, _ = await rows_of(library, [say(tenant="Ada Byron")], "tenant")

    assert sorted((row.name, row.failure is None) for row in rows) == [
        ("empty.md", False),
        ("lease.md", True),
    ]


async def test_a_model_that_fails_is_told_in_the_row(library: Library, tmp_path: Path) -> None:
    add(library, tmp_path, lease=LEASE)
    failure = Failure(kind="timeout", message="took too long")

    (row,), _ = await rows_of(library, [Fail(failure=failure)], "tenant")

    assert row.failure == failure
    assert row.values == {}


async def test_a_schema_that_does_not_fit_is_refused_before_anything_is_read(
    library: Library, tmp_path: Path
) -> None:
    add(library, tmp_path, lease=LEASE)

    with pytest.raises(ApplianceError, match="context window"):
        await rows_of(library, [say(tenant="x")], "tenant", context_window=520)
