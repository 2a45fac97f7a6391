"""`appliance schema check`: what will be enforced of a schema, keyword by keyword."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from appliance.cli.output_format import format_of_schema
from appliance.core.errors import SchemaRejectedError
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.structured.report import KeywordReport

_WORDS = {
    "enforced": "enforced",
    "checked_after": "checked after",
    "annotation": "describes",
    "refused": "refused",
}


@click.group("schema")
def schema_command() -> None:
    """Look at schemas for structured output."""


@schema_command.command("check")
@click.argument("schema")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_command(schema: str, *, as_json: bool) -> None:
    """Say for each keyword of SCHEMA whether it is enforced, checked after, or refused.

    SCHEMA is a file, inline JSON, a Pydantic model as module:Class, or a short form like
    "name, age int, tags [str]". module:Class runs that module's code, from the current folder.
    The exit code is 1 when the schema is refused.
    """
    from appliance.structured.admission import audit

    reports = audit(format_of_schema(schema))
    refusal = next((report for report in reports if report.status == "refused"), None)
    if as_json:
        rows = [asdict(report) for report in reports]
        click.echo(json.dumps({"admitted": refusal is None, "keywords": rows}, ensure_ascii=False, indent=2))
    elif refusal is None:
        click.echo(clean_for_terminal(_as_table(reports)))
    if refusal is not None:
        raise SchemaRejectedError(refusal.note, pointer=refusal.pointer, keyword=refusal.keyword)


def _as_table(reports: Sequence[KeywordReport]) -> str:
    rows = [
        (report.pointer or "/", report.keyword, _WORDS[report.status], report.note)
        for report in reports
        if report.status != "annotation" or "constrains nothing" in report.note
    ]
    if not rows:
        return "the schema constrains nothing: any JSON value is valid"
    places = max(len(row[0]) for row in rows)
    keywords = max(len(row[1]) for row in rows)
    lines = [f"{row[0]:<{places}}  {row[1]:<{keywords}}  {row[2]:<13}  {row[3]}".rstrip() for row in rows]
    checked = sum(report.status == "checked_after" for report in reports)
    enforced = sum(report.status == "enforced" for report in reports)
    lines.append(f"\nadmitted: {enforced} keywords enforced by the grammar, {checked} checked after")
    return "\n".join(lines)
