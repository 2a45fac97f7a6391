"""Telemetry that cannot be kept costs spans, never a request."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from appliance.core.errors import StorageError
from appliance.telemetry import Telemetry
from appliance.telemetry.metrics import Counter
from appliance.telemetry.spans import SpanRecord
from appliance.telemetry.trace_store import TraceStore
from appliance.telemetry.writer import SpanWriter


class Gate:
    """An exporter that waits until it is let go, and may fail."""

    def __init__(self, error: StorageError | None = None) -> None:
        self.records: list[SpanRecord] = []
        self.opened = threading.Event()
        self.entered = threading.Event()
        self._error = error

    def export(self, records: Sequence[SpanRecord]) -> None:
        self.entered.set()
        self.opened.wait(10)
        if self._error is not None:
            raise self._error
        self.records += records

    def close(self) -> None:
        self.opened.set()


def dropped() -> Counter:
    return Counter("dropped", "", ())


def spans(writer: SpanWriter, count: int) -> None:
    telemetry = Telemetry(sink=writer)
    for number in range(count):
        telemetry.span(f"span {number}").end()


def test_closing_waits_for_what_was_taken() -> None:
    gate, lost = Gate(), dropped()
    gate.opened.set()
    writer = SpanWriter([lambda: gate], lost)

    spans(writer, 1000)
    writer.close()

    assert [record.name for record in gate.records] == [f"span {number}" for number in range(1000)]
    assert lost.values() == {}


def test_a_stalled_exporter_makes_spans_drop_and_be_counted_and_nobody_waits() -> None:
    gate, lost = Gate(), dropped()
    writer = SpanWriter([lambda: gate], lost)

    spans(writer, 1)
    assert gate.entered.wait(10)
    spans(writer, 10_000)
    gate.opened.set()
    writer.close()

    assert sum(lost.values().values()) > 0
    assert len(gate.records) + sum(lost.values().values()) == 10_001


def test_an_exporter_that_fails_loses_its_spans_and_the_other_keeps_them() -> None:
    broken, whole, lost = Gate(StorageError("disk full")), Gate(), dropped()
    broken.opened.set()
    whole.opened.set()
    writer = SpanWriter([lambda: broken, lambda: whole], lost)

    spans(writer, 3)
    writer.close()

    assert (len(whole.records), sum(lost.values().values())) == (3, 3)


def test_a_store_that_cannot_be_opened_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "traces.db").write_bytes(b"no database" * 1000)
    writer = SpanWriter([lambda: TraceStore(tmp_path / "traces.db")], dropped())

    with caplog.at_level(logging.WARNING, "appliance.telemetry"):
        spans(writer, 100)
        writer.close()

    assert [record.getMessage()[:19] for record in caplog.records] == ["spans are not kept:"]


def test_spans_after_closing_are_counted_as_dropped() -> None:
    lost = dropped()
    writer = SpanWriter([], lost)

    writer.close()
    spans(writer, 2)

    assert lost.values() == {(): 2}
