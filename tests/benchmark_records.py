"""Records and fingerprints for tests of benchmarks."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.records import Metric, Record, RecordedFingerprint, Run, Scalar


def fingerprint(**changes: object) -> RecordedFingerprint:
    facts: dict[str, object] = {
        "processor": "Test CPU",
        "usable_cores": 4,
        "memory_bytes": 8 << 30,
        "system": "Linux-6",
        "python": "3.11.7",
        "libraries": {"llama-cpp-python": "0.3.36"},
        "engine_build": "cpu-native",
        "engine_flags": "-O3",
        "governor": "performance",
        "models": {"tiny": "aa11"},
        "load_before": 0.1,
    }
    return RecordedFingerprint.model_validate(facts | changes)


def rate(*samples: float) -> Metric:
    return Metric(name="rate", unit="tokens/s", better="higher", samples=samples)


def record(
    *metrics: Metric,
    run: str = "run-1",
    test: str = "pp512",
    suite: str = "engine",
    configuration: dict[str, Scalar] | None = None,
    facts: dict[str, Scalar] | None = None,
    doubts: tuple[str, ...] = (),
    **changes: object,
) -> Record:
    return Record(
        run=run,
        suite=suite,
        test=test,
        configuration=configuration if configuration is not None else {"model": "tiny", "threads": 2},
        metrics=metrics or (rate(100.0, 101.0, 99.0, 100.5, 99.5),),
        facts=facts or {},
        doubts=doubts,
        started_at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        elapsed_s=1.5,
        seed=1,
        fingerprint=fingerprint(**changes),
    )


def run(*records: Record, name: str = "run-1") -> Run:
    return Run(name=name, records=records)
