"""`appliance trace`: the latest requests, or where the time of one went."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from appliance.cli.invocation import Invocation
from appliance.core.errors import InvalidRequestError
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.telemetry.spans import AttributeValue, SpanRecord
    from appliance.telemetry.trace_store import TraceStore
    from appliance.telemetry.trace_tree import TraceNode

_SHORT_ID = 12
_TOKENS = (
    ("gen_ai.usage.input_tokens", "in"),
    ("gen_ai.usage.cache_read.input_tokens", "cached"),
    ("gen_ai.usage.output_tokens", "out"),
)
_SHOWN_ELSEWHERE = frozenset(("gen_ai.operation.name", *(name for name, _ in _TOKENS)))


@click.command("trace")
@click.argument("identifier", default="", metavar="[ID]")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
@click.pass_obj
def trace_command(invocation: Invocation, *, identifier: str, limit: int, as_json: bool) -> None:
    """List the latest requests, or show one as a tree of what it did and when.

    ID is a request's or trace's id, or its first characters. Times are those since the request came.
    A trace holds names and numbers; texts of prompts and answers only where `trace_content_owners` names
    their owner, and then redacted.
    """
    with _opened_store(invocation) as store:
        if not identifier:
            roots = store.recent(limit=limit)
            click.echo(
                json.dumps([_root_values(root) for root in roots], indent=2) if as_json else _table(roots)
            )
            return
        records = store.trace(identifier)
    from appliance.telemetry.trace_tree import trees_of

    trees = trees_of(records)
    if as_json:
        click.echo(json.dumps([_node_values(tree) for tree in trees], indent=2))
        return
    click.echo(clean_for_terminal("\n\n".join(_drawn(tree) for tree in trees)))


@contextmanager
def _opened_store(invocation: Invocation) -> Iterator[TraceStore]:
    from appliance.telemetry.trace_store import TRACES_FILE, TraceStore

    path = invocation.settings().state_dir / TRACES_FILE
    if not path.exists():
        raise InvalidRequestError(
            "there are no traces yet", hint="ask something first; with trace_days = 0 none are kept"
        )
    store = TraceStore(path)
    try:
        yield store
    finally:
        store.close()


def _root_values(record: SpanRecord) -> dict[str, object]:
    return {**asdict(record), "started_at": _time_of(record).isoformat()}


def _node_values(node: TraceNode) -> dict[str, object]:
    return {**_root_values(node.record), "children": [_node_values(child) for child in node.children]}


def _table(roots: list[SpanRecord]) -> str:
    rows: list[tuple[str, ...]] = [("ID", "WHEN", "WHAT", "TOOK", "TTFT", "TOKENS", "MODEL", "ENDED")]
    rows += [_row(root) for root in roots]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return clean_for_terminal("\n".join(line.rstrip() for line in lines))


def _row(record: SpanRecord) -> tuple[str, ...]:
    facts = record.attributes
    ttft_s = facts.get("appliance.ttft_s", 0.0)
    return (
        record.trace_id[:_SHORT_ID],
        f"{_time_of(record):%Y-%m-%d %H:%M:%S}",
        record.name,
        _seconds(record.duration_ns / 1e9),
        _seconds(float(ttft_s)) if ttft_s else "-",
        _tokens(record) or "-",
        str(facts.get("gen_ai.response.model", facts.get("gen_ai.request.model", "-"))),
        _ending(record),
    )


def _drawn(tree: TraceNode) -> str:
    from appliance.telemetry.trace_tree import tree_lines

    root = tree.record
    lines = [f"trace {root.trace_id}  {_time_of(root):%Y-%m-%d %H:%M:%S}  owner {root.owner}"]
    drawn = [(strokes + node.record.name, node.record) for strokes, node in tree_lines(tree)]
    width = max(len(name) for name, _ in drawn)
    stated: set[tuple[str, AttributeValue]] = set()
    for name, record in drawn:
        since_s = (record.start_ns - root.start_ns) / 1e9
        times = f"{'+' + _seconds(since_s):>10}  {_seconds(record.duration_ns / 1e9):>9}"
        lines.append(f"{name:<{width}}  {times}  {_facts(record, stated)}".rstrip())
        stated |= record.attributes.items()
        lines += [f"{'':<{width}}    {key}: {text}" for key, text in record.content.items()]
    return "\n".join(lines)


def _facts(record: SpanRecord, stated: set[tuple[str, AttributeValue]]) -> str:
    """Return what a span says that no line above it said."""
    new = [(name, value) for name, value in record.attributes.items() if (name, value) not in stated]
    shown = [_fact(name, value) for name, value in new if name not in _SHOWN_ELSEWHERE]
    parts = ["" if record.status == "ok" else record.status, _tokens(record), *shown]
    return "  ".join(part for part in parts if part)


def _fact(name: str, value: AttributeValue) -> str:
    short = name.removeprefix("gen_ai.").removeprefix("appliance.")
    if name.endswith(".digest"):
        value = str(value)[:_SHORT_ID]
    return "" if value in ("", 0, False) else f"{short}={value}"


def _tokens(record: SpanRecord) -> str:
    counts = [f"{record.attributes[name]} {word}" for name, word in _TOKENS if record.attributes.get(name)]
    return " ".join(counts)


def _ending(record: SpanRecord) -> str:
    if record.status == "error":
        return str(record.attributes.get("error.type", "error"))
    return str(record.attributes.get("gen_ai.response.finish_reasons", record.status))


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _time_of(record: SpanRecord) -> datetime:
    return datetime.fromtimestamp(record.start_ns / 1e9, UTC).astimezone()
