"""Measurements of the terminal interface: `appliance bench` in a child process, read line by line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from appliance.config import Settings
from appliance.core.errors import InternalError, InvalidRequestError
from tui.rows import BenchEvent, BenchFigure, BenchMetric, BenchRecord, BenchRun, WorkLine, WorkProgress

_SUITES = {
    "latency": ("latency", "-p", "128,512", "-n", "32"),
    "engine": ("engine",),
}
_LONGEST_LINE_BYTES = 8 << 20
_LEAVING_S = 10.0


class BenchOfMachine:
    """`BenchPort` over the command line, with the settings of this program."""

    def __init__(self, settings: Settings, model: Callable[[], str]) -> None:
        self._settings = settings
        self._model = model

    async def run(self, suite: str) -> AsyncGenerator[BenchEvent, None]:
        """Run a suite on the model that answers; closing the generator stops it, and what was measured is kept."""
        arguments = [*_SUITES[suite], "-m", self._model(), "--json", "--progress", "json"]
        child = await self._start(*arguments)
        assert child.stdout is not None
        failure = ""
        try:
            async for line in child.stdout:
                told = _object(line)
                if told.get("kind") == "failed":
                    failure = _failure(told)
                for event in _events(told):
                    yield event
            await child.wait()
        finally:
            await _leave(child)
        if child.returncode:
            raise InvalidRequestError(failure or f"the measurement ended with {child.returncode}")

    async def history(self) -> list[BenchRun]:
        """Return the runs that are kept, newest first."""
        told = _object(await self._output("history", "--json"))
        return [_run(_as_object(one)) for one in reversed(_as_list(told.get("runs")))]

    async def compare(self, first: str, second: str) -> str:
        """Return how two runs differ."""
        text = await self._output("compare", first, second, "--unlike", may_fail=True)
        return text.decode("utf-8", "replace")

    async def _start(self, *arguments: str, merges: bool = False) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "appliance",
                *self._flags(),
                "bench",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT if merges else asyncio.subprocess.DEVNULL,
                limit=_LONGEST_LINE_BYTES,
            )
        except OSError as exc:
            raise InternalError(f"the measurement cannot be started: {exc}") from exc

    async def _output(self, *arguments: str, may_fail: bool = False) -> bytes:
        child = await self._start(*arguments, merges=may_fail)
        try:
            output, _ = await child.communicate()
        finally:
            await _leave(child)
        if child.returncode and not may_fail:
            raise InternalError(f"`appliance bench {arguments[0]}` ended with {child.returncode}")
        return output

    def _flags(self) -> list[str]:
        """What was said on this program's command line; file and environment are inherited."""
        flags = [
            part
            for setting in self._settings.resolved
            if setting.source == "flag"
            for part in ("--set", f"{setting.name}={setting.value}")
        ]
        file = self._settings.config_file
        return [*flags, "--config", str(file)] if file.is_file() else flags


async def _leave(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        await asyncio.wait_for(child.wait(), _LEAVING_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def _events(told: dict[str, object]) -> list[BenchEvent]:
    match told.get("kind"):
        case "progress":
            return _progress(told)
        case "record":
            return [_record(told)]
        case "finished":
            notes = [WorkLine(text=str(note)) for note in _as_list(told.get("notes"))]
            return [*notes, WorkLine(text=f"run {told.get('run', '')} is kept")]
        case _:
            return []


def _progress(told: dict[str, object]) -> list[BenchEvent]:
    done, total, figure = told.get("done"), told.get("total"), told.get("figure")
    text, unit = str(told.get("text", "")), str(told.get("unit", ""))
    step = WorkProgress(
        what=text,
        done=done if isinstance(done, int) else 0,
        total=total if isinstance(total, int) else 0,
        unit="steps",
    )
    if isinstance(figure, int | float):
        return [step, BenchFigure(series=text, figure=float(figure), unit=unit)]
    return [step]


def _record(told: dict[str, object]) -> BenchRecord:
    configuration = _as_object(told.get("configuration"))
    return BenchRecord(
        test=f"{told.get('suite', '')} {told.get('test', '')}".strip(),
        configuration=" ".join(
            f"{name}={value}" for name, value in configuration.items() if value is not None
        ),
        metrics=tuple(_metric(_as_object(one)) for one in _as_list(told.get("metrics"))),
        doubts=tuple(map(str, _as_list(told.get("doubts")))),
    )


def _metric(told: dict[str, object]) -> BenchMetric:
    samples = [float(one) for one in _as_list(told.get("samples")) if isinstance(one, int | float)]
    return BenchMetric(name=str(told.get("name", "")), unit=str(told.get("unit", "")), samples=tuple(samples))


def _run(told: dict[str, object]) -> BenchRun:
    records = told.get("records")
    return BenchRun(
        name=str(told.get("run", "")),
        suites=", ".join(map(str, _as_list(told.get("suites")))),
        models=", ".join(map(str, _as_list(told.get("models")))),
        records=records if isinstance(records, int) else 0,
        doubts=tuple(map(str, _as_list(told.get("doubts")))),
    )


def _failure(told: dict[str, object]) -> str:
    failure = _as_object(told.get("failure"))
    return " · ".join(str(failure[part]) for part in ("message", "hint") if failure.get(part))


def _object(line: bytes) -> dict[str, object]:
    try:
        return _as_object(json.loads(line))
    except ValueError:
        return {}


def _as_object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
