"""`appliance ps`: the models that are loaded now, by any process of this user."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from appliance.cli.invocation import Invocation
from appliance.core.terminal_text import clean_for_terminal

_STARTED_SLACK_S = 60.0
_UNFINISHED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """A process that holds a model, as its runtime file and the operating system say."""

    pid: int
    parent_pid: int
    model: str
    digest: str
    context_window: int
    parallel: int
    started_at: float
    resident_bytes: int


@click.command("ps")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def ps_command(invocation: Invocation, *, as_json: bool) -> None:
    """List the models that are loaded now, by any process of yours.

    Files that processes left behind when they died are removed.
    """
    folder = invocation.settings().runtime_dir / "workers"
    workers = running_workers(folder)
    if as_json:
        click.echo(json.dumps({"workers": [asdict(worker) for worker in workers]}, indent=2))
        return
    click.echo(_as_table(workers) if workers else "no model is loaded")


def running_workers(folder: Path) -> list[RunningWorker]:
    """Read the runtime files of a folder, oldest worker first; stale files are removed."""
    found = [_read(path) for path in folder.glob("*.json")]
    return sorted((worker for worker in found if worker), key=lambda worker: worker.started_at)


def _read(path: Path) -> RunningWorker | None:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        worker = _worker(facts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        _remove_when_old(path)
        return None
    if worker is None:
        path.unlink(missing_ok=True)
    return worker


def _worker(facts: dict[str, object]) -> RunningWorker | None:
    """Return the worker of a runtime file, or nothing when its process is gone or its id was taken over."""
    import psutil

    pid, started_at = _integer(facts, "pid"), cast(float, facts["started_at"])
    if not 0 <= started_at <= datetime.now(UTC).timestamp() + _STARTED_SLACK_S:
        raise ValueError(f"started_at is {started_at}")
    try:
        process = psutil.Process(pid)
        is_other = process.create_time() > started_at + _STARTED_SLACK_S
        if is_other or process.status() == psutil.STATUS_ZOMBIE:
            return None
        resident_bytes = process.memory_info().rss
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        resident_bytes = 0
    return RunningWorker(
        pid=pid,
        parent_pid=_integer(facts, "parent_pid"),
        model=str(facts["model"]),
        digest=str(facts["digest"]),
        context_window=_integer(facts, "context_window"),
        parallel=_integer(facts, "parallel"),
        started_at=float(started_at),
        resident_bytes=resident_bytes,
    )


def _integer(facts: dict[str, object], key: str) -> int:
    value = facts[key]
    if not isinstance(value, int) or value < 0:
        raise TypeError(f"{key} must be a whole number")
    return value


def _remove_when_old(path: Path) -> None:
    """A file that cannot be read may be one that is being written."""
    try:
        age_s = datetime.now(UTC).timestamp() - path.stat().st_mtime
        if age_s > _UNFINISHED_S:
            path.unlink(missing_ok=True)
    except OSError:
        return


def _as_table(workers: list[RunningWorker]) -> str:
    rows: list[tuple[str, ...]] = [("PID", "MODEL", "DIGEST", "CONTEXT", "PARALLEL", "MEMORY", "SINCE")]
    rows += [_row(worker) for worker in workers]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(worker: RunningWorker) -> tuple[str, ...]:
    since = datetime.fromtimestamp(worker.started_at, UTC).astimezone()
    return (
        str(worker.pid),
        clean_for_terminal(worker.model),
        clean_for_terminal(worker.digest[:12]),
        str(worker.context_window),
        str(worker.parallel),
        f"{worker.resident_bytes / 2**20:.0f} MiB",
        f"{since:%Y-%m-%d %H:%M:%S}",
    )
