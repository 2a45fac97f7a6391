"""Follows one run: makes its records, writes them at once, and tells a listener of each record and step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Literal

from appliance.core.errors import StorageError
from benchmarks.fingerprint import Fingerprint, take_fingerprint
from benchmarks.noise import CpuUse, reasons_for_doubt, watch_cpu
from benchmarks.records import Metric, Record, RecordStore, Scalar, new_run_name, recorded
from benchmarks.throttling import count_throttles, reasons_of_throttling


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A step of a run: how many of how many, what it is, and the newest figure where there is one.

    `is_idle` says that nothing is being measured at this moment, so that whatever a listener does disturbs nothing.
    """

    suite: str
    done: int
    total: int
    text: str
    figure: float | None = None
    unit: str = ""
    is_idle: bool = True
    kind: Literal["progress"] = "progress"


Listen = Callable[[Progress | Record], None]


@dataclass(slots=True)
class Doubts:
    """Collects what speaks against the figures of one test while it runs."""

    load_before: float
    measured_pid: int | None = None
    uses: list[CpuUse] = field(default_factory=list)
    throttles_before: int = 0
    other: list[str] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch who uses the processor in the block."""
        with watch_cpu(self.measured_pid) as use:
            self.uses.append(use)  # filled in at the end, also where the block is left early
            yield

    def reasons(self, metrics: Sequence[Metric]) -> tuple[str, ...]:
        """Everything found, the samples' own behaviour included."""
        rates = [metric for metric in metrics if metric.unit == "tokens/s"]
        found = reasons_for_doubt(
            load_before=self.load_before,
            foreign_shares=[use.foreign_share for use in self.uses],
            variations=[metric.summary.variation for metric in rates],
        )
        throttles = count_throttles() - self.throttles_before
        found += reasons_of_throttling([metric.samples for metric in rates], throttles=throttles)
        return tuple(dict.fromkeys([*found, *self.other]))


class Recorder:
    """One run of one suite.

    Args:
        store: where records go.
        models: sha256 of the weights by name, for the fingerprint.
        listen: hears every step and record; it must not raise.
    """

    def __init__(
        self,
        suite: str,
        store: RecordStore,
        *,
        models: Mapping[str, str],
        seed: int,
        listen: Listen,
        fingerprint: Fingerprint | None = None,
    ) -> None:
        self.suite = suite
        self.seed = seed
        self.store = store
        self.run = new_run_name(suite, datetime.now(UTC))
        self.records: list[Record] = []
        # A server on this machine that is measured: what it uses is no noise.
        self.measured_pid: int | None = None
        self.unwritten: StorageError | None = None
        self._fingerprint = fingerprint or take_fingerprint(models)
        self._listen = listen
        self._done = 0
        self._total = 0

    def expect(self, steps: int) -> None:
        """Say how many steps more the run will have."""
        self._total = self._done + steps

    def step(self, text: str, *, figure: float | None = None, unit: str = "", is_idle: bool = True) -> None:
        """Report that one more step is done, or that the next one begins."""
        self._listen(
            Progress(
                suite=self.suite,
                done=self._done,
                total=max(self._total, self._done),
                text=text,
                figure=figure,
                unit=unit,
                is_idle=is_idle,
            )
        )

    def advance(
        self, text: str, *, figure: float | None = None, unit: str = "", is_idle: bool = True
    ) -> None:
        """Count a step as done and report it."""
        self._done += 1
        self.step(text, figure=figure, unit=unit, is_idle=is_idle)

    def doubts(self) -> Doubts:
        """Begin to watch a test."""
        return Doubts(
            load_before=self._fingerprint.load_before,
            measured_pid=self.measured_pid,
            throttles_before=count_throttles(),
        )

    def record(
        self,
        test: str,
        *,
        configuration: Mapping[str, Scalar],
        metrics: Sequence[Metric],
        began_s: float,
        facts: Mapping[str, Scalar] | None = None,
        doubts: Sequence[str] = (),
    ) -> Record:
        """Write a result; it is on disk when this returns, or `unwritten` says why not and the run goes on."""
        elapsed_s = perf_counter() - began_s
        record = Record(
            run=self.run,
            suite=self.suite,
            test=test,
            configuration=dict(configuration),
            metrics=tuple(metrics),
            facts=dict(facts or {}),
            doubts=tuple(doubts),
            started_at=datetime.fromtimestamp(datetime.now(UTC).timestamp() - elapsed_s, UTC),
            elapsed_s=elapsed_s,
            seed=self.seed,
            fingerprint=recorded(self._fingerprint),
        )
        self.records.append(record)
        try:
            self.store.append(record)
        except StorageError as error:
            self.unwritten = error
        self._listen(record)
        return record
