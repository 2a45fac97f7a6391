"""The spans of a trace as a tree, earliest first; what lost its parent stands at the top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from appliance.telemetry.spans import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A span and those below it."""

    record: SpanRecord
    children: tuple[TraceNode, ...]


def trees_of(records: Sequence[SpanRecord]) -> list[TraceNode]:
    """Return the roots of a trace with everything below them."""
    known = {record.span_id for record in records}
    below: dict[str, list[SpanRecord]] = {}
    for record in sorted(records, key=lambda record: (record.start_ns, -record.duration_ns)):
        below.setdefault(record.parent_id if record.parent_id in known else "", []).append(record)
    return [_node(record, below) for record in below.get("", [])]


def tree_lines(node: TraceNode) -> Iterator[tuple[str, TraceNode]]:
    """Yield every node with the strokes that stand before its name."""
    yield "", node
    yield from _lines_below(node, "")


def _lines_below(node: TraceNode, indent: str) -> Iterator[tuple[str, TraceNode]]:
    for child in node.children:
        is_last = child is node.children[-1]
        yield f"{indent}{'└─ ' if is_last else '├─ '}", child
        yield from _lines_below(child, indent + ("   " if is_last else "│  "))


def _node(record: SpanRecord, below: dict[str, list[SpanRecord]]) -> TraceNode:
    children = tuple(_node(child, below) for child in below.get(record.span_id, []))
    return TraceNode(record=record, children=children)
