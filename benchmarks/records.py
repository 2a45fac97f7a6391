"""What a run of a benchmark leaves behind: one JSON record a line, in a file of its own for each run."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from appliance.core.errors import InvalidRequestError, StorageError
from benchmarks.fingerprint import Fingerprint
from benchmarks.statistics import (
    Interval,
    Statistic,
    Summary,
    mean_interval,
    median_interval,
    percentile,
    share_interval,
    summarise,
)

Scalar = str | int | float | bool | None
Better = Literal["higher", "lower", "neither"]
PERCENTILES = (50, 90, 95, 99)
_NAMED_LINES = 5
_BOUNDS = ("interval_low", "interval_high", "confidence")
_TRIAL_BYTES = 16_384

_FINITE = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Metric(BaseModel):
    """One measured quantity: every sample, so that any statistic can be computed again.

    `statistic` says what of the samples is the value: medians of times and rates; means of shares, of divergences, and
    of throughput in parts of equal length. `groups` are the sizes of neighbouring samples that depend on each other,
    such as the gaps of one request: then the value is the median of the medians of the groups.
    """

    model_config = _FINITE

    name: str = Field(min_length=1)
    unit: str
    better: Better
    samples: tuple[float, ...] = Field(min_length=1)
    statistic: Statistic = "median"
    groups: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _groups_are_whole(self) -> Self:
        if self.groups and (min(self.groups) < 1 or sum(self.groups) != len(self.samples)):
            raise ValueError("the groups are no division of the samples")
        return self

    @property
    def independent(self) -> tuple[float, ...]:
        """Values that may be taken for independent: the samples, or the median of each group of them."""
        ends = accumulate(self.groups)
        return (
            tuple(median(self.samples[end - size : end]) for end, size in zip(ends, self.groups, strict=True))
            or self.samples
        )

    @property
    def value(self) -> float:
        """The median or the mean."""
        return median(self.independent) if self.statistic == "median" else fmean(self.samples)

    @property
    def interval(self) -> Interval:
        """Where the value lies, with the coverage that the number of samples allows."""
        if self.statistic == "median":
            return median_interval(self.independent)
        return share_interval(self.samples) if self.unit == "share" else mean_interval(self.samples)

    @property
    def summary(self) -> Summary:
        """Median, spread and the interval of the median."""
        return summarise(self.samples)

    def percentiles(self) -> dict[str, float]:
        """The usual percentiles of the samples."""
        return {f"p{percent}": percentile(self.samples, percent) for percent in PERCENTILES}


class RecordedFingerprint(BaseModel):
    """The fingerprint as it stands in a file; later versions may know more facts."""

    model_config = ConfigDict(extra="allow", frozen=True)

    processor: str
    usable_cores: int
    memory_bytes: int
    system: str
    python: str
    libraries: Mapping[str, str]
    engine_build: str
    engine_flags: str
    governor: str
    models: Mapping[str, str]
    load_before: float

    def facts(self) -> dict[str, object]:
        """Every fact by name."""
        return self.model_dump(mode="json")


class Record(BaseModel):
    """The result of one test of a suite in one configuration.

    `configuration` holds what was chosen and decides what is compared with what; `facts` holds what came out beside
    the metrics, such as token counts. `doubts` say why a figure may not be trusted.
    """

    model_config = _FINITE

    schema_version: Literal[1] = 1
    kind: Literal["record"] = "record"
    run: str
    suite: str
    test: str
    configuration: Mapping[str, Scalar]
    metrics: tuple[Metric, ...]
    facts: Mapping[str, Scalar] = Field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    started_at: datetime
    elapsed_s: Annotated[float, Field(ge=0)]
    seed: int
    fingerprint: RecordedFingerprint

    @field_validator("metrics")
    @classmethod
    def _names_differ(cls, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
        names = [metric.name for metric in metrics]
        if len(set(names)) != len(names):
            raise ValueError("two metrics of one record share a name")
        return metrics

    def metric(self, name: str) -> Metric | None:
        """Return the metric of a name."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def interval_of(self, metric: Metric) -> Interval | None:
        """Where the value of one of its metrics lies; None where nothing bounds it.

        Of samples that ended when they had shown something the record holds bounds that allow for that.
        """
        if "interval_low" not in self.facts:
            return metric.interval
        low, high, confidence = (self.facts.get(name) for name in _BOUNDS)
        if not (isinstance(low, float) and isinstance(high, float) and isinstance(confidence, float)):
            return None
        return Interval(low=low, high=high, coverage=confidence)


def recorded(fingerprint: Fingerprint) -> RecordedFingerprint:
    """Turn a fingerprint into the form that is written."""
    return RecordedFingerprint.model_validate(asdict(fingerprint))


def new_run_name(suite: str, now: datetime) -> str:
    """Name a run by its time and suite; a few random letters tell runs of one second apart."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{suite}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The records of one run, and the numbers of the lines of its file that could not be read."""

    name: str
    records: tuple[Record, ...]
    unread: tuple[int, ...] = ()
    problem: str = ""

    @property
    def unread_lines(self) -> int:
        """How many lines could not be read."""
        return len(self.unread)

    def warnings(self) -> list[str]:
        """What of the file could not be read, by name."""
        lines = ", ".join(map(str, self.unread[:_NAMED_LINES])) + (" …" if self.unread[_NAMED_LINES:] else "")
        found = (
            [f"{self.name}: {len(self.unread)} lines are no records and left out: line {lines}"]
            if lines
            else []
        )
        return [*found, f"{self.name}: {self.problem}"] if self.problem else found

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites it ran."""
        return tuple(dict.fromkeys(record.suite for record in self.records))


class RecordStore:
    """The folder of runs. A record is on disk before `append` returns, so an interrupted run keeps what it has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, record: Record) -> None:
        """Write one record to the file of its run.

        Raises:
            StorageError: the folder cannot be written.
        """
        line = record.model_dump_json() + "\n"
        with self._writing(), self._path(record.run).open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def check_writable(self) -> None:
        """Try to write, so that nothing is measured for minutes that cannot be kept.

        Raises:
            StorageError: the folder cannot be written.
        """
        with self._writing(), tempfile.TemporaryFile(dir=self.folder) as file:
            file.write(b"\n" * _TRIAL_BYTES)
            file.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            yield
        except OSError as exc:
            raise StorageError(
                f"records cannot be written to {self.folder}: {exc.strerror}",
                hint="free some disk, or choose another folder with --set state_dir=FOLDER",
            ) from exc

    def names(self) -> list[str]:
        """Names of the runs, oldest first."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))

    def runs(self, suites: Sequence[str] = ()) -> Iterator[Run]:
        """Every run, or those whose names say one of the suites, oldest first; what cannot be read is said in it."""
        for name in self.names():
            if suites and not any(f"-{suite}-" in name for suite in suites):
                continue
            try:
                yield read_run(self._path(name))
            except InvalidRequestError as error:
                yield Run(name=name, records=(), problem=error.message)

    def find(self, text: str) -> Run:
        """Find a run by its name, the start of it, the end of it, `last`, `last-1` …, or the path of a file.

        Raises:
            InvalidRequestError: none or several are meant, or it holds no readable record.
        """
        path = Path(text)
        run = read_run(path if path.suffix == ".jsonl" and path.is_file() else self._path(self._named(text)))
        if not run.records:
            raise InvalidRequestError(
                f"the run {text} holds no record that can be read ({run.unread_lines} lines cannot)",
                hint="`appliance bench history` lists the runs that can be compared",
            )
        return run

    def _named(self, text: str) -> str:
        names = self.names()
        if text.startswith("last"):
            back = text.removeprefix("last").removeprefix("-") or "0"
            if back.isdigit() and int(back) < len(names):
                return names[-1 - int(back)]
        found = [name for name in names if name == text] or [
            name for name in names if name.startswith(text) or name.endswith(text)
        ]
        if len(found) == 1:
            return found[0]
        problem = f"{len(found)} runs are called {text!r}" if found else f"there is no run {text!r}"
        raise InvalidRequestError(
            f"{problem} in {self.folder}", hint="`appliance bench history` lists them; `last` is the newest"
        )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"


def read_run(path: Path) -> Run:
    """Read the records of a file; lines of other versions, and one that was cut off, are counted and left out.

    Raises:
        InvalidRequestError: the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as exc:
        raise InvalidRequestError(f"{path} cannot be read: {exc.strerror}") from exc
    records: list[Record] = []
    unread: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(Record.model_validate_json(line))
        except ValidationError:
            unread.append(number)
    return Run(name=path.stem, records=tuple(records), unread=tuple(unread))


def records_of_suite(records: Sequence[Record], suite: str) -> list[Record]:
    """The records of one suite."""
    return [record for record in records if record.suite == suite]
