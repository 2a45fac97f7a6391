"""Rows as CSV and JSON lines."""

from __future__ import annotations

import csv
import io
import json

from appliance.core.errors import Failure
from appliance.jobs.evidence import FieldEvidence
from appliance.jobs.rows import ExtractedRow, to_csv, to_jsonl


def test_a_csv_row_has_each_value_beside_its_evidence() -> None:
    found = FieldEvidence(
        path="parties[0]", value="Ada", verdict="exact", quote="Ada", place="page 2", start=3, end=6
    )
    row = ExtractedRow(
        document_id="d", name="a.pdf", source="/a.pdf", values={"parties": ["Ada"]}, evidence=(found,)
    )

    header, cells = csv.reader(io.StringIO(to_csv([row], ["parties"])))

    told = dict(zip(header, cells, strict=True))
    assert told["parties"] == '["Ada"]'
    assert (told["parties verdict"], told["parties quote"], told["parties place"]) == (
        "exact",
        "Ada",
        "page 2",
    )


def test_no_cell_is_a_formula_of_a_spreadsheet() -> None:
    row = ExtractedRow(document_id="d", name="=cmd|' /C calc'!A0", source="@x", values={"a": "+1", "b": -1})

    _, cells = csv.reader(io.StringIO(to_csv([row], ["a", "b"])))

    assert cells[:4] == ["'=cmd|' /C calc'!A0", "'@x", "'+1", "-1"]


def test_a_failed_document_stays_a_row_that_says_why() -> None:
    failure = Failure(kind="timeout", message="took too long")
    row = ExtractedRow(document_id="d", name="a.pdf", source="/a.pdf", failure=failure)

    told = json.loads(to_jsonl([row]))

    assert told["is_valid"] is False
    assert told["failure"]["message"] == "took too long"
    assert "took too long" in to_csv([row], ["a"])
