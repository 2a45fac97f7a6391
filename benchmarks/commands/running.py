"""Runs the coroutine of a suite to its end, keeps what is finished when it is interrupted, and shows the result."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from appliance.core.errors import ApplianceError
from benchmarks.commands.options import OutputFlags
from benchmarks.output import ProgressMode, RunOutput
from benchmarks.recorder import Recorder
from benchmarks.records import RecordStore

if TYPE_CHECKING:
    from appliance.catalog.catalog import LocalModel
    from appliance.config import Settings

FOLDER = "benchmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEnd:
    """What a suite says at its end: what it could not measure, and lines for a reader beside the records."""

    missing: Sequence[str] = ()
    lines: Sequence[str] = ()
    extra: Mapping[str, object] = field(default_factory=dict)


# A suite that never waits is a plain function, so that Ctrl+C reaches it at once.
Suite = Callable[[Recorder], Coroutine[None, None, SuiteEnd] | SuiteEnd]


def store_of(settings: Settings) -> RecordStore:
    """Where runs are kept."""
    return RecordStore(settings.state_dir / FOLDER)


def local_models(settings: Settings, names: Sequence[str]) -> list[LocalModel]:
    """The models that are named, or the one of the settings.

    Raises:
        ModelNotFoundError: one is not on this machine.
    """
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore

    catalog = Catalog(ModelStore(settings.models_dir))
    found = [catalog.local(name) for name in dict.fromkeys(names or (settings.model,))]
    return list({model.id: model for model in found}.values())


def digests_of(models: Sequence[LocalModel]) -> dict[str, str]:
    """Digests by name, for the fingerprint; a file that was never hashed is known by its size and its time."""
    return {model.id: model.digest or _unhashed(model) for model in models}


def _unhashed(model: LocalModel) -> str:
    status = model.path.stat()
    return f"not hashed, {status.st_size} bytes, modified {int(status.st_mtime)}"


def run_suite(
    suite: str,
    settings: Settings,
    flags: OutputFlags,
    measure: Suite,
    *,
    models: Mapping[str, str],
) -> int:
    """Run a suite. 0 where something was measured, 1 where nothing was, 130 by Ctrl+C.

    Raises:
        ApplianceError: the suite cannot run, or its records cannot be written; what was measured is shown.
        KeyboardInterrupt: it was interrupted; finished records are kept and shown.
    """
    output = RunOutput(as_json=flags["as_json"], progress=cast("ProgressMode", flags["progress"]))
    store = store_of(settings)
    recorder = Recorder(suite, store, models=models, seed=flags["seed"], listen=output)
    path = str(store.folder / f"{recorder.run}.jsonl")
    try:
        store.check_writable()
        end = _run_to_its_end(measure, recorder)
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.finish(recorder.run, path, recorder.records, [], is_whole=False)
        raise KeyboardInterrupt from None
    except ApplianceError as error:
        if recorder.records:
            output.finish(recorder.run, path, recorder.records, [], is_whole=False)
        output.fail(error.to_failure())
        raise
    notes = [*end.lines, *(f"not measured: {missing}" for missing in end.missing)]
    is_whole = not end.missing and recorder.unwritten is None
    output.finish(recorder.run, path, recorder.records, notes, is_whole=is_whole, extra=end.extra)
    if recorder.unwritten is not None:
        output.fail(recorder.unwritten.to_failure())
        raise recorder.unwritten
    return 0 if recorder.records else 1


def _run_to_its_end(measure: Suite, recorder: Recorder) -> SuiteEnd:
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        found = measure(recorder)
        return found if isinstance(found, SuiteEnd) else asyncio.run(_until_told_to_end(found))
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


async def _until_told_to_end(measuring: Awaitable[SuiteEnd]) -> SuiteEnd:
    """Run; a signal to end is treated like Ctrl+C, so that finished records are kept."""
    task = asyncio.ensure_future(measuring)
    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
