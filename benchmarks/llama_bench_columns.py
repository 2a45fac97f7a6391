"""Reads and writes llama-bench's own columns, and lays its figures beside ours."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from appliance.core.errors import InvalidRequestError
from benchmarks.pairing import MIN_SAMPLES, bootstrap_ratio
from benchmarks.records import Record, Scalar
from benchmarks.statistics import Interval
from benchmarks.tables import aligned

_FLASH = {"auto": -1, "off": 0, "on": 1}
_KV_TYPES = {"reproducible": ("f16", "f32")}
_NANO = 1e9


class LlamaBenchRow(BaseModel):
    """One test in llama-bench's JSON; columns that are not compared are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    model_filename: str
    model_type: str = ""
    model_n_params: int = 0
    n_batch: int
    n_ubatch: int
    n_threads: int
    type_k: str
    type_v: str
    n_gpu_layers: int
    flash_attn: int = -1
    n_prompt: int
    n_gen: int
    n_depth: int = 0
    samples_ts: tuple[float, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One of our tests beside the same of llama-bench: medians, and our rate over theirs."""

    test: str
    model: str
    threads: int
    ours: float
    theirs: float
    ratio: float
    interval: Interval | None


def read_llama_bench(path: Path) -> list[LlamaBenchRow]:
    """Read what `llama-bench -o json` wrote, or `-o jsonl`.

    Raises:
        InvalidRequestError: it is not that.
    """
    try:
        text = path.read_text(encoding="utf-8")
        rows = (
            text if text.lstrip().startswith("[") else f"[{','.join(filter(str.strip, text.splitlines()))}]"
        )
        return TypeAdapter(list[LlamaBenchRow]).validate_json(rows)
    except (OSError, UnicodeDecodeError, ValidationError) as exc:
        raise InvalidRequestError(
            f"{path} is not what llama-bench writes with `-o json`",
            hint="run llama-bench with `-o json > FILE`",
        ) from exc


def to_llama_bench(records: Sequence[Record]) -> str:
    """Write records of the suite `engine` as llama-bench's JSON, for tools that read it."""
    rows = [_row(record) for record in records if record.suite == "engine" and record.metric("rate")]
    return json.dumps(rows, indent=2) + "\n"


def backends_of(engine: str) -> str:
    """The backends in what the engine says of its build, as llama-bench lists them."""
    return ",".join(re.findall(r"(\w+) : ", engine))


def lay_beside(records: Sequence[Record], theirs: Sequence[LlamaBenchRow]) -> list[Beside]:
    """Pair tests of the same weights (by their number of parameters), sizes and threads."""
    pairs = []
    for record in records:
        row = next((row for row in theirs if _is_same(record, row)), None)
        rate = record.metric("rate")
        if row is None or rate is None:
            continue
        theirs_median = statistics.median(row.samples_ts)
        is_enough = min(len(rate.samples), len(row.samples_ts)) >= MIN_SAMPLES
        pairs.append(
            Beside(
                test=record.test,
                model=str(record.configuration["model"]),
                threads=row.n_threads,
                ours=rate.summary.median,
                theirs=theirs_median,
                ratio=rate.summary.median / theirs_median,
                interval=bootstrap_ratio(row.samples_ts, rate.samples) if is_enough else None,
            )
        )
    return pairs


def beside_lines(pairs: Sequence[Beside]) -> list[str]:
    """The pairs as a table."""
    if not pairs:
        return ["llama-bench's file holds no test with the same weights, sizes, threads and batches"]
    rows = [("TEST", "MODEL", "THREADS", "OURS t/s", "LLAMA-BENCH t/s", "RATIO", "INTERVAL 95 %")]
    rows += [
        (
            pair.test,
            pair.model,
            str(pair.threads),
            f"{pair.ours:.2f}",
            f"{pair.theirs:.2f}",
            f"{pair.ratio:.3f}",
            f"{pair.interval.low:.3f} – {pair.interval.high:.3f}" if pair.interval else "too few repetitions",
        )
        for pair in pairs
    ]
    return [*aligned(rows), "measured at different times, so what slowed one of them does not cancel"]


def _is_same(record: Record, row: LlamaBenchRow) -> bool:
    ours, facts = record.configuration, record.facts
    sizes = (ours.get("n_prompt"), ours.get("n_gen"), ours.get("n_depth"))
    return (
        sizes == (row.n_prompt, row.n_gen, row.n_depth)
        and ours.get("threads") == row.n_threads
        and (ours.get("batch_tokens"), ours.get("ubatch_tokens")) == (row.n_batch, row.n_ubatch)
        and {_FLASH.get(str(ours.get("flash_attention")), -1), row.flash_attn} != {0, 1}
        and facts.get("model_n_params") in {row.model_n_params, 0}
        and _kv_types(ours) == (row.type_k, row.type_v)
    )


def _kv_types(configuration: Mapping[str, Scalar]) -> tuple[str, str]:
    stated = str(configuration.get("kv_type"))
    return _KV_TYPES.get(stated, (stated, stated))


def _row(record: Record) -> dict[str, Scalar | list[float] | list[int]]:
    rate = record.metric("rate")
    assert rate is not None
    settings, facts = record.configuration, record.facts
    tokens = int(settings["n_prompt"] or 0) + int(settings["n_gen"] or 0)
    times_ns = [round(tokens / sample * _NANO) for sample in rate.samples]
    spread = statistics.stdev(rate.samples) if len(rate.samples) > 1 else 0.0
    type_k, type_v = _kv_types(settings)
    return {
        "build_commit": record.fingerprint.libraries.get("llama-cpp-python", ""),
        "cpu_info": record.fingerprint.processor,
        "backends": backends_of(str(facts.get("engine", ""))),
        "model_filename": facts.get("model_filename"),
        "model_type": facts.get("model_type"),
        "model_size": facts.get("model_size"),
        "model_n_params": facts.get("model_n_params"),
        "n_batch": settings["batch_tokens"],
        "n_ubatch": settings["ubatch_tokens"],
        "n_threads": settings["threads"],
        "type_k": type_k,
        "type_v": type_v,
        "n_gpu_layers": settings["gpu_layers"],
        "flash_attn": _FLASH[str(settings["flash_attention"])],
        "n_prompt": settings["n_prompt"],
        "n_gen": settings["n_gen"],
        "n_depth": settings["n_depth"],
        "test_time": f"{record.started_at:%Y-%m-%dT%H:%M:%SZ}",
        "avg_ns": round(statistics.fmean(times_ns)),
        "stddev_ns": round(statistics.stdev(times_ns)) if len(times_ns) > 1 else 0,
        "avg_ts": statistics.fmean(rate.samples),
        "stddev_ts": spread,
        "samples_ns": times_ns,
        "samples_ts": list(rate.samples),
    }
