"""What `appliance doctor` looks at: rows that say what is, and what to do when it is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from appliance import __version__
from appliance.catalog.catalog import Catalog, mending_hint
from appliance.catalog.manifest import Manifest, StoredFile
from appliance.catalog.store import ModelStore
from appliance.config import Settings
from appliance.core.errors import ApplianceError
from appliance.engine.build_record import InstalledBuild
from appliance.engine.gpus import Gpu
from appliance.engine.processor import Processor
from appliance.engine.selftest import SelfTestReport

Status = Literal["ok", "warn", "fail"]

REBUILD = "`python -m appliance.engine.build`, or `make install`, compiles and tests one for this machine"

_NOTABLE_FEATURES = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "neon",
    "asimd",
    "sve",
    "i8mm",
)
_LOW_MEMORY_BYTES, _TOO_LITTLE_MEMORY_BYTES = 2 * 10**9, 5 * 10**8
_LOW_DISK_BYTES, _TOO_LITTLE_DISK_BYTES = 5 * 10**9, 5 * 10**8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report. `remedy` says what to do where the status is not `ok`."""

    section: str
    name: str
    status: Status
    value: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What is known of the engine in this environment."""

    installed_version: str
    build: InstalledBuild | None
    self_test: SelfTestReport | None
    self_test_model: str
    why_no_self_test: str = ""


def program_rows() -> Iterator[Row]:
    """Version and Python."""
    yield Row(section="program", name="appliance", status="ok", value=__version__)
    python = f"{platform.python_version()} at {sys.executable}"
    yield Row(section="program", name="python", status="ok", value=python)


def settings_rows(settings: Settings) -> Iterator[Row]:
    """Where settings come from, and variables that look misspelt."""
    exists = "" if settings.config_file.exists() else " (none there; defaults hold)"
    yield Row(section="settings", name="file", status="ok", value=f"{settings.config_file}{exists}")
    for warning in settings.unread_environment:
        yield Row(
            section="settings",
            name="environment",
            status="warn",
            value=warning,
            remedy="correct or unset the variable; `appliance config` lists every setting",
        )


def processor_rows(processor: Processor, settings: Settings) -> Iterator[Row]:
    """The processor and the threads chosen for it."""
    notable = [name for name in _NOTABLE_FEATURES if name in processor.features]
    features = ", ".join(notable) or "no vector extensions found"
    name = f"{processor.name}, {processor.architecture}: {features}"
    yield Row(section="machine", name="processor", status="ok", value=name)
    threads = settings.threads or processor.physical_cores
    logical = os.cpu_count() or 1
    value = f"{threads} of {processor.physical_cores} physical cores ({logical} logical)"
    if threads > processor.physical_cores:
        remedy = f"more threads than cores slow decoding down; set threads to {processor.physical_cores} or 0"
        yield Row(section="machine", name="threads", status="warn", value=value, remedy=remedy)
        return
    yield Row(section="machine", name="threads", status="ok", value=value)


def memory_rows() -> Iterator[Row]:
    """Memory that a model could take now."""
    memory = psutil.virtual_memory()
    value = f"{gigabytes(memory.available)} free of {gigabytes(memory.total)}"
    remedy = "close other programs, or use a smaller model; `appliance show NAME` says what one needs"
    status = level(memory.available, _LOW_MEMORY_BYTES, _TOO_LITTLE_MEMORY_BYTES)
    yield Row(
        section="machine", name="memory", status=status, value=value, remedy=remedy if status != "ok" else ""
    )


def gpu_rows(gpus: tuple[Gpu, ...], engine: EngineFacts) -> Iterator[Row]:
    """GPUs found, and whether the installed build can use them."""
    measurement = engine.self_test.measurement if engine.self_test else None
    backend = engine.build.backend if engine.build else "cpu"
    if not gpus:
        status: Status = "ok" if backend == "cpu" else "warn"
        remedy = (
            ""
            if backend == "cpu"
            else f"this is a {backend} build; look at the driver, or unset APPLIANCE_BACKEND"
        )
        yield Row(
            section="machine",
            name="gpu",
            status=status,
            value="none found; the processor computes",
            remedy=remedy,
        )
        return
    can_use = bool(measurement and measurement.supports_gpu)
    for gpu in gpus:
        memory = (
            f", {gigabytes(gpu.free_bytes)} free of {gigabytes(gpu.total_bytes)}" if gpu.total_bytes else ""
        )
        value = f"{gpu.name}{memory} (found by {gpu.found_by}); "
        if can_use:
            yield Row(section="machine", name="gpu", status="ok", value=f"{value}the build can use a GPU")
            continue
        remedy = f"APPLIANCE_BACKEND={gpu.backend} make run compiles for it (untested by the makers)"
        yield Row(
            section="machine",
            name="gpu",
            status="warn",
            value=f"{value}the build cannot use it",
            remedy=remedy,
        )


def engine_rows(engine: EngineFacts, processor: Processor) -> Iterator[Row]:
    """The compiled engine and its self-test."""
    yield _build_row(engine, processor)
    report = engine.self_test
    if report is None:
        reason = engine.why_no_self_test
        yield Row(
            section="engine",
            name="self-test",
            status="fail",
            value=f"not run: {reason}",
            remedy="mend the lines that failed and run `appliance doctor` again",
        )
        return
    measurement = report.measurement
    if measurement:
        yield Row(section="engine", name="features", status="ok", value=measurement.system_info)
    if not report.has_passed:
        remedy = (
            REBUILD if report.verdict == "build_fault" else "free memory, then run `appliance doctor` again"
        )
        yield Row(section="engine", name="self-test", status="fail", value=report.reason, remedy=remedy)
        return
    assert measurement
    value = (
        f"{report.reason} of {engine.self_test_model}: prefill {measurement.prompt_tokens_per_s:.0f} and "
        f"decode {measurement.decode_tokens_per_s:.0f} tokens/s, {report.elapsed_s:.1f} s in all"
    )
    yield Row(section="engine", name="self-test", status="ok", value=value)


def _build_row(engine: EngineFacts, processor: Processor) -> Row:
    build = engine.build
    version = f"llama-cpp-python {engine.installed_version}"
    if not engine.installed_version:
        return Row(
            section="engine",
            name="build",
            status="fail",
            value="llama-cpp-python is not installed",
            remedy=REBUILD,
        )
    if build is None:
        value = f"{version}, compiled by something else, with unknown flags"
        return Row(section="engine", name="build", status="warn", value=value, remedy=REBUILD)
    value = f"{version}, {build.backend} build {build.profile!r}: {build.description}"
    if frozenset(build.features) != processor.features:
        value += f"; made for another processor ({build.processor})"
        return Row(section="engine", name="build", status="warn", value=value, remedy=REBUILD)
    return Row(section="engine", name="build", status="ok", value=value)


def path_rows(settings: Settings) -> Iterator[Row]:
    """Folders and whether they can be written."""
    folders: Mapping[str, tuple[Path, str]] = {
        "data": (settings.data_dir, "APPLIANCE_DATA_DIR"),
        "models": (settings.models_dir, "APPLIANCE_MODELS"),
        "cache": (settings.cache_dir, "APPLIANCE_CACHE_DIR"),
        "state": (settings.state_dir, "APPLIANCE_STATE_DIR"),
    }
    for name, (folder, variable) in folders.items():
        existing = _nearest_existing(folder)
        if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
            note = "" if existing == folder else " (made when first used)"
            yield Row(section="paths", name=name, status="ok", value=f"{folder}{note}")
            continue
        remedy = f"mend the permissions of {existing}, or choose another folder with {variable}"
        value = f"{folder} cannot be written"
        yield Row(section="paths", name=name, status="fail", value=value, remedy=remedy)


def disk_rows(settings: Settings) -> Iterator[Row]:
    """Room on the disks of the model store and the cache."""
    remedy = "make room: `appliance list` shows what models take, `appliance rm NAME` removes one"
    for name, folder in {"models": settings.models_dir, "cache": settings.cache_dir}.items():
        usage = shutil.disk_usage(_nearest_existing(folder))
        status = level(usage.free, _LOW_DISK_BYTES, _TOO_LITTLE_DISK_BYTES)
        value = f"{gigabytes(usage.free)} free of {gigabytes(usage.total)} for {folder}"
        yield Row(
            section="disk", name=name, status=status, value=value, remedy=remedy if status != "ok" else ""
        )


def model_rows(settings: Settings, *, is_verifying: bool) -> Iterator[Row]:
    """Stored models with their digests, hashed again where asked."""
    store = ModelStore(settings.models_dir)
    for path in store.damaged_manifests():
        name = f"{path.parent.name}:{path.stem}"
        value = f"its manifest {path} is damaged"
        yield Row(section="models", name=name, status="fail", value=value, remedy=f"`appliance pull {name}`")
    manifests = store.manifests()
    for manifest in manifests:
        yield _model_row(store, manifest, is_verifying=is_verifying)
    try:
        Catalog(store).local(settings.model)
    except ApplianceError as exc:
        value = f"the model that answers by default: {exc.message}"
        yield Row(section="models", name=settings.model, status="fail", value=value, remedy=exc.hint)


def _model_row(store: ModelStore, manifest: Manifest, *, is_verifying: bool) -> Row:
    name = manifest.card.id
    for file in manifest.files:
        if problem := _file_problem(store, file, is_verifying=is_verifying):
            value = f"{store.file_path(file)} {problem}"
            remedy = mending_hint(manifest, file)
            return Row(section="models", name=name, status="fail", value=value, remedy=remedy)
    kind = "hashed again just now" if is_verifying else "as recorded"
    value = f"{gigabytes(manifest.size_bytes)}, sha256 {manifest.digest}, {kind}"
    return Row(section="models", name=name, status="ok", value=value)


def _file_problem(store: ModelStore, file: StoredFile, *, is_verifying: bool) -> str:
    path = store.file_path(file)
    if not path.is_file():
        return "is gone"
    if path.stat().st_size != file.size_bytes:
        return f"has {path.stat().st_size} bytes instead of {file.size_bytes}"
    if is_verifying and store.hash_file(path, file.name) != file.sha256:
        return "has another sha256 than recorded"
    return ""


def tool_rows() -> Iterator[Row]:
    """Programs that some features use where they are there."""
    path = shutil.which("tesseract")
    if path:
        yield Row(section="tools", name="tesseract", status="ok", value=path)
        return
    yield Row(
        section="tools",
        name="tesseract",
        status="warn",
        value="not found; pages that are pictures cannot be read",
        remedy="for scans only. Debian and Ubuntu: apt install tesseract-ocr; macOS: brew install tesseract",
    )


def level(amount: int, low: int, too_little: int) -> Status:
    """Grade an amount of memory or disk."""
    if amount < too_little:
        return "fail"
    return "warn" if amount < low else "ok"


def gigabytes(size_bytes: int) -> str:
    """Write a size for people, in decimal units."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 10**9 else f"{size_bytes / 1e6:.0f} MB"


def _nearest_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
