"""Carries span records off the hot path: a bounded queue, and one thread that opens and feeds the exporters."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from appliance.core.errors import ApplianceError
from appliance.telemetry.metrics import Counter
from appliance.telemetry.spans import SpanRecord

_log = logging.getLogger(__name__)

_LONGEST_QUEUE = 8192
_LARGEST_BATCH = 512
_GATHERING_S = 0.25
_CLOSING_S = 2.0


class Exporter(Protocol):
    """Keeps or sends span records. Used by one thread only."""

    def export(self, records: Sequence[SpanRecord]) -> None:
        """Keep or send records.

        Raises:
            ApplianceError: they could not be kept.
        """
        ...

    def close(self) -> None:
        """Release what is held."""
        ...


class SpanWriter:
    """A sink that never blocks: what the queue cannot hold is dropped and counted.

    Args:
        openers: make the exporters; called in the thread, when the first record comes.
    """

    def __init__(self, openers: Sequence[Callable[[], Exporter]], dropped: Counter) -> None:
        self._openers = openers
        self._dropped = dropped
        self._records: queue.Queue[SpanRecord | None] = queue.Queue(_LONGEST_QUEUE)
        self._is_closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def take(self, record: SpanRecord) -> None:
        """Queue a record."""
        if self._is_closing.is_set():
            self._dropped.add()
            return
        try:
            self._records.put_nowait(record)
        except queue.Full:
            self._dropped.add()
        self._start()

    def close(self) -> None:
        """Wait until what was queued is kept, two seconds at most; later records are dropped."""
        self._is_closing.set()
        if self._thread is None:
            return
        try:
            self._records.put(None, timeout=_CLOSING_S)
        except queue.Full:
            return
        self._thread.join(_CLOSING_S)

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="span-writer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        exporters = [exporter for exporter in map(_opened, self._openers) if exporter is not None]
        try:
            while (batch := self._next_batch()) is not None:
                for exporter in exporters:
                    self._export(exporter, batch)
        finally:
            for exporter in exporters:
                exporter.close()

    def _next_batch(self) -> list[SpanRecord] | None:
        """Return records that came about together; nothing once the queue is closed and empty."""
        first = self._records.get()
        if first is None:
            return None
        batch = [first]
        # One write for the spans of a request that end one after another; nobody waits for it.
        self._is_closing.wait(_GATHERING_S)
        while len(batch) < _LARGEST_BATCH and not self._records.empty():
            record = self._records.get()
            if record is None:
                self._records.put(None)
                break
            batch.append(record)
        return batch

    def _export(self, exporter: Exporter, batch: Sequence[SpanRecord]) -> None:
        try:
            exporter.export(batch)
        except ApplianceError as exc:
            self._dropped.add(amount=len(batch))
            _log.warning("%d spans are lost: %s", len(batch), exc.message)


def _opened(opener: Callable[[], Exporter]) -> Exporter | None:
    try:
        return opener()
    except ApplianceError as exc:
        _log.warning("spans are not kept: %s", exc.message)
        return None
