"""`appliance doctor`: checks this machine and installation, and says what to do where something is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

import click

from appliance.cli.doctor_rows import (
    EngineFacts,
    Row,
    Status,
    disk_rows,
    engine_rows,
    gpu_rows,
    memory_rows,
    model_rows,
    path_rows,
    processor_rows,
    program_rows,
    settings_rows,
    tool_rows,
)
from appliance.cli.egress import egress_rows
from appliance.cli.invocation import Invocation
from appliance.config import Settings, load_settings
from appliance.core.errors import ApplianceError, ConfigError
from appliance.core.terminal_text import clean_for_terminal
from appliance.engine.build import starter_weights
from appliance.engine.build_record import installed_version, read_installed_build
from appliance.engine.gpus import detect_gpus
from appliance.engine.processor import detect_processor
from appliance.engine.selftest import run_self_test

_MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("ok  ", "green"),
    "warn": ("warn", "yellow"),
    "fail": ("FAIL", "red"),
}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--verify", "is_verifying", is_flag=True, help="Hash every stored model again; reads all of it."
)
@click.option(
    "--egress", "shows_egress", is_flag=True, help="Show what may leave this machine, and prove it."
)
@click.pass_obj
def doctor_command(invocation: Invocation, *, as_json: bool, is_verifying: bool, shows_egress: bool) -> int:
    """Check this machine and installation; the exit code is 1 where a line says FAIL.

    Evaluates a prompt in a child process with the engine as it is installed, and reports the processor,
    threads, memory, GPUs, folders, models and disk. GPU builds (CUDA, Metal, Vulkan) could not be run by the
    makers of this software: for those, trust the self-test here.

    With --egress it shows instead what may connect to other machines and what is connected now, and asks a
    model over HTTP in a network namespace that has nothing but loopback.
    """
    rows: list[Row] = []
    collected = (
        egress_rows(invocation.settings())
        if shows_egress
        else _collect(invocation, is_verifying=is_verifying)
    )
    for row in collected:
        rows.append(row)
        if not as_json:
            _print_row(row, is_first=len(rows) == 1 or rows[-2].section != row.section)
    if as_json:
        click.echo(_as_json(rows))
    else:
        click.echo(_egress_summary(rows) if shows_egress else _summary(rows))
    return 1 if any(row.status == "fail" for row in rows) else 0


def _collect(invocation: Invocation, *, is_verifying: bool) -> Iterator[Row]:
    yield from program_rows()
    try:
        settings = invocation.settings()
    except ConfigError as exc:
        yield Row(section="settings", name="settings", status="fail", value=exc.message, remedy=exc.hint)
        settings = _default_settings()
    yield from settings_rows(settings)
    processor, gpus = detect_processor(), detect_gpus()
    yield from processor_rows(processor, settings)
    yield from memory_rows()
    engine = _engine_facts(settings)
    yield from gpu_rows(gpus, engine)
    yield from engine_rows(engine, processor)
    checks: tuple[Callable[[], Iterable[Row]], ...] = (
        lambda: path_rows(settings),
        lambda: model_rows(settings, is_verifying=is_verifying),
        lambda: disk_rows(settings),
        tool_rows,
    )
    for check in checks:
        yield from check()


def _default_settings() -> Settings:
    """Settings that hold when the user's own cannot be read, so that the other checks still run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("APPLIANCE_")}
    return load_settings(environ={**kept, "APPLIANCE_CONFIG": os.devnull})


def _engine_facts(settings: Settings) -> EngineFacts:
    version, build = installed_version(), read_installed_build()
    if not version:
        return EngineFacts(
            installed_version="",
            build=None,
            self_test=None,
            self_test_model="",
            why_no_self_test="there is no engine",
        )
    try:
        weights = starter_weights(settings.models_dir)
        report = run_self_test(weights, threads=settings.threads)
    except ApplianceError as exc:
        return EngineFacts(
            installed_version=version,
            build=build,
            self_test=None,
            self_test_model="",
            why_no_self_test=f"{exc.message}; {exc.hint}",
        )
    return EngineFacts(
        installed_version=version, build=build, self_test=report, self_test_model="the starter model"
    )


def _print_row(row: Row, *, is_first: bool) -> None:
    if is_first:
        click.secho(f"\n{row.section}", bold=True)
    mark, colour = _MARKS[row.status]
    click.echo(f"  {click.style(mark, fg=colour)}  {row.name:<12} {clean_for_terminal(row.value)}")
    if row.remedy and row.status != "ok":
        click.echo(f"{'':21}→ {clean_for_terminal(row.remedy)}")


def _summary(rows: list[Row]) -> str:
    failed, warned = (sum(row.status == status for row in rows) for status in ("fail", "warn"))
    if failed:
        return f"\n{failed} failed, {warned} to look at; the lines with → say what to do"
    return f"\nready to use; {warned} to look at" if warned else "\nready to use"


def _egress_summary(rows: list[Row]) -> str:
    if any(row.status == "fail" for row in rows):
        return "\nsomething leaves this machine that should not; the lines with FAIL say what"
    warned = sum(row.status == "warn" for row in rows)
    return f"\n{warned} lines to look at" if warned else "\nnothing leaves this machine"


def _as_json(rows: list[Row]) -> str:
    is_healthy = not any(row.status == "fail" for row in rows)
    return json.dumps({"is_healthy": is_healthy, "rows": [asdict(row) for row in rows]}, indent=2)
