"""`python -m benchmarks.peers build | run`: compile llama.cpp's programs, and the side-by-side table."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from appliance.catalog.catalog import Catalog
from appliance.catalog.store import ModelStore
from appliance.config import load_settings
from appliance.core.errors import ApplianceError
from appliance.engine.processor import detect_processor
from benchmarks.fingerprint import take_fingerprint
from benchmarks.noise import CpuUse
from benchmarks.peers.comparison import MIN_ROUNDS, compare
from benchmarks.peers.programs import ensure_programs
from benchmarks.peers.readme import to_readme
from benchmarks.peers.report import to_json, to_markdown
from benchmarks.peers.run import RunPlan, RunRecord, run_rounds, write_atomically
from benchmarks.structured import Round, measure_rounds
from benchmarks.structured_together import Together

STARTER = "smollm2:135m-instruct-q4_1"
SECOND = "gemma3:270m-q4_k_m"
STRUCTURED_CASES = 4
BOUNDED_SPINNING = {"GOMP_SPINCOUNT": "10000"}

Measured = TypeVar("Measured")


def _say(text: str) -> None:
    click.echo(text, err=True)


@click.group()
def cli() -> None:
    """Compare the engine with llama.cpp's own programs from the same source."""


@cli.command()
def build() -> None:
    """Compile the programs into the cache."""
    programs = ensure_programs(load_settings().cache_dir, _say, sys.stderr)
    libraries = "the engine's own libraries" if programs.shares_libraries else "libraries of their own"
    click.echo(f"{programs.folder} ({programs.flags}), on {libraries}")


@cli.command()
@click.option("--rounds", default=MIN_ROUNDS, show_default=True, type=click.IntRange(1, 100))
@click.option("--threads", default=0, type=click.IntRange(0, 1024), help="0: one a physical core")
@click.option("--model", "models", multiple=True, default=(STARTER, SECOND), show_default=True)
@click.option("--limit-s", default=900.0, show_default=True, help="start nothing after so many seconds")
@click.option(
    "--structured-rounds",
    default=3,
    show_default=True,
    type=click.IntRange(0, 100),
    help="0: no structured output",
)
@click.option(
    "--peer-openmp",
    type=click.Choice(["stock", "bounded"]),
    default="stock",
    show_default=True,
    help="stock: peers run as they come, like the engine; bounded: their threads spin less, for a busy machine",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--readme",
    "readme_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="the section for a README",
)
def run(
    rounds: int,
    threads: int,
    models: tuple[str, ...],
    limit_s: float,
    structured_rounds: int,
    peer_openmp: str,
    json_path: Path | None,
    markdown_path: Path | None,
    readme_path: Path | None,
) -> None:
    """Measure side by side, then structured output; results so far are written after every step."""
    settings = load_settings()
    programs = ensure_programs(settings.cache_dir, _say, sys.stderr)
    catalog = Catalog(ModelStore(settings.models_dir))
    record = RunRecord(
        plan=RunPlan(
            models=models,
            rounds=rounds,
            threads=threads or detect_processor().physical_cores,
            limit_s=limit_s,
            peer_openmp=BOUNDED_SPINNING if peer_openmp == "bounded" else {},
        ),
        fingerprint=take_fingerprint({name: catalog.local(name).digest for name in models}),
        programs=programs,
    )

    def save(record: RunRecord) -> None:
        if json_path:
            write_atomically(json_path, to_json(record))
        if markdown_path:
            write_atomically(markdown_path, to_markdown(record))

    asyncio.run(_run_until_told_to_end(run_rounds(record, catalog, save, _say)))
    click.echo(to_markdown(record))
    if readme_path:
        write_readme(readme_path, record, structured_rounds if record.is_complete else 0, save)
        click.echo(f"{readme_path} holds the section for the README", err=True)
    sys.exit(0 if compare(record.pairs) else 1)


def write_readme(
    path: Path, record: RunRecord, structured_rounds: int, save: Callable[[RunRecord], None]
) -> None:
    """Write what there is, measure structured output in the time that is left, and write and save again."""
    found: list[Round] = []
    together: Together | None = None

    def write() -> None:
        today = datetime.now(UTC).date()
        write_atomically(path, to_readme(record, found, together, cases=STRUCTURED_CASES, on=today))

    write()
    if not structured_rounds:
        return
    try:
        measured = asyncio.run(_run_until_told_to_end(_measure_structured(record, structured_rounds, found)))
        together = measured[0] if measured else None
        if together is None:
            record.failures.append(
                f"structured output: ended after {len(found)} rounds, before both together"
            )
    except ApplianceError as error:
        record.failures.append(f"structured output: {error.message}")
    finally:
        save(record)
        write()


async def _measure_structured(
    record: RunRecord, rounds: int, found: list[Round]
) -> tuple[Together | None, CpuUse] | None:
    """Measure in the time that the rest of the run has left; None where it has left none."""
    plan = record.plan
    left_s = plan.limit_s - record.elapsed_s
    if left_s <= 0:
        return None
    return await measure_rounds(
        plan.models[0],
        rounds,
        plan.threads,
        STRUCTURED_CASES,
        with_server=True,
        say=_say,
        found=found,
        limit_s=left_s,
    )


async def _run_until_told_to_end(measuring: Coroutine[None, None, Measured]) -> Measured | None:
    """Run; a signal to end still closes engines and servers, which would go on without this process."""
    task = asyncio.create_task(measuring)
    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await task
    return None


def main() -> None:
    """Run a command; a failure says what failed and what to do."""
    try:
        cli(standalone_mode=True)
    except ApplianceError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
