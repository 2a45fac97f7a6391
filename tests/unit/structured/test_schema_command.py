"""`appliance schema check`: a row for each keyword, and a refusal as a typed error."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from appliance.cli.schema import schema_command
from appliance.core.errors import SchemaRejectedError


def check(*arguments: str) -> Result:
    return CliRunner().invoke(schema_command, ["check", *arguments])


def test_each_keyword_has_a_row_and_the_last_line_counts_them(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "nonsense": 1}')
    result = check(str(file))
    rows = [line.split(None, 2) for line in result.output.splitlines()]
    assert result.exit_code == 0
    assert ["/", "uniqueItems", "checked after  the grammar cannot compare items"] in rows
    assert any(
        row[:2] == ["/items", "type"] and row[2].startswith("enforced") for row in rows if len(row) == 3
    )
    assert "nonsense" in result.output
    assert result.output.endswith("admitted: 3 keywords enforced by the grammar, 1 checked after\n")


def test_a_short_form_can_be_checked_as_json() -> None:
    found = json.loads(check("name, born date", "--json").output)
    assert found["admitted"] is True
    assert {"pointer": "/properties/born", "keyword": "format", "status": "enforced", "note": ""} in found[
        "keywords"
    ]


def test_a_refused_schema_raises_with_its_place() -> None:
    error = check('{"properties": {"a": {"$ref": "http://example.com/x"}}}').exception
    assert isinstance(error, SchemaRejectedError)
    assert (error.pointer, error.keyword) == ("/properties/a/$ref", "$ref")


def test_a_schema_that_constrains_nothing_says_so() -> None:
    assert "constrains nothing" in check("{}").output
