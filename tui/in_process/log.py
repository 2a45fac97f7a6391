"""The log of the terminal interface: traces of this machine's requests, and the ends of the workers' files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tui.rows import SpanRow, TraceRow

if TYPE_CHECKING:
    from appliance.telemetry.spans import SpanRecord
    from appliance.telemetry.trace_store import TraceStore

_MOST_TRACES = 200
_TAIL_BYTES = 60_000
_HIDDEN_FACTS = ("gen_ai.operation.name",)


class LogOfMachine:
    """`LogPort` over the state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    async def traces(self) -> list[TraceRow]:
        """Return the latest requests, newest first."""
        return await asyncio.to_thread(self._traces)

    async def spans(self, trace_id: str) -> list[SpanRow]:
        """Return one request as a tree, drawn line by line."""
        return await asyncio.to_thread(self._spans, trace_id)

    async def lines(self) -> list[str]:
        """Return the ends of the logs, by file."""
        return await asyncio.to_thread(self._lines)

    @contextmanager
    def _store(self) -> Iterator[TraceStore | None]:
        from appliance.telemetry.trace_store import TRACES_FILE, TraceStore

        path = self._state_dir / TRACES_FILE
        store = TraceStore(path) if path.exists() else None
        try:
            yield store
        finally:
            if store is not None:
                store.close()

    def _traces(self) -> list[TraceRow]:
        with self._store() as store:
            return [_trace_row(root) for root in store.recent(limit=_MOST_TRACES)] if store else []

    def _spans(self, trace_id: str) -> list[SpanRow]:
        from appliance.telemetry.trace_tree import tree_lines, trees_of

        with self._store() as store:
            records = store.trace(trace_id) if store else []
        rows: list[SpanRow] = []
        for tree in trees_of(records):
            began_ns = tree.record.start_ns
            rows += [_span_row(strokes, node.record, began_ns) for strokes, node in tree_lines(tree)]
        return rows

    def _lines(self) -> list[str]:
        lines: list[str] = []
        for path in sorted((self._state_dir / "logs").glob("*.log")):
            lines += [f"── {path.name}", *_tail(path)]
        return lines


def _trace_row(record: SpanRecord) -> TraceRow:
    facts = record.attributes
    return TraceRow(
        trace_id=record.trace_id,
        started_at_s=record.start_ns / 1e9,
        name=record.name,
        model=str(facts.get("gen_ai.response.model", facts.get("gen_ai.request.model", ""))),
        duration_s=record.duration_ns / 1e9,
        status=record.status,
    )


def _span_row(strokes: str, record: SpanRecord, began_ns: int) -> SpanRow:
    facts = [
        f"{name.removeprefix('gen_ai.').removeprefix('appliance.')}={value}"
        for name, value in record.attributes.items()
        if name not in _HIDDEN_FACTS and value not in ("", 0, False)
    ]
    return SpanRow(
        strokes=strokes,
        name=record.name,
        start_s=(record.start_ns - began_ns) / 1e9,
        duration_s=record.duration_ns / 1e9,
        status=record.status,
        facts="  ".join(facts),
    )


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError as exc:
        return [f"cannot be read: {exc.strerror}"]
