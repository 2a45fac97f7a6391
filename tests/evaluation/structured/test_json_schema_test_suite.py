"""The JSON Schema Test Suite against grammar and check together: nothing invalid is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.structured.acceptance import Acceptance

SUITE = Path(__file__).parent / "json_schema_test_suite"
META_SCHEMAS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


def measure(draft: str, pattern: str) -> Acceptance:
    found = Acceptance()
    for path in sorted((SUITE / draft).glob(pattern)):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": META_SCHEMAS[draft], **schema}
            cases = [(case["data"], case["valid"]) for case in group["tests"]]
            found.add(f"{path.name}: {group['description']}", schema, cases)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "draft, pattern, least_right",
    [
        ("draft2020-12", "*.json", 0.975),
        ("draft2020-12", "optional/format/*.json", 0.96),
        ("draft7", "*.json", 0.995),
        ("draft7", "optional/format/*.json", 0.96),
    ],
)
def test_nothing_invalid_is_accepted_and_little_valid_is_lost(
    draft: str, pattern: str, least_right: float
) -> None:
    found = measure(draft, pattern)
    assert [line for line in found.wrong if line.startswith("false accept")] == []
    assert found.counts["right"] / found.counts["instances"] >= least_right, "\n".join(found.wrong)


@pytest.mark.slow
def test_only_what_is_remote_or_cannot_be_told_apart_is_refused() -> None:
    refused = [
        line
        for draft in META_SCHEMAS
        for line in measure(draft, "*.json").wrong
        if line.startswith("refused")
    ]
    unexpected = [
        line
        for line in refused
        if not any(
            reason in line
            for reason in (
                "refers outside",
                "no value",
                "no finite value",
                "not present",
                "cannot be told apart",
            )
        )
    ]
    assert unexpected == []
