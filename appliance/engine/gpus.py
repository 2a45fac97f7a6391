"""Finds GPUs through whatever this machine offers: NVIDIA's library, nvidia-smi, render nodes, or Metal."""

from __future__ import annotations

import importlib
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from appliance.engine.build_profiles import Backend

_QUERY_TIMEOUT_S = 10.0
_RENDER_NODES = Path("/dev/dri")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU; 0 bytes is not known. `backend` is the build that can use it."""

    name: str
    total_bytes: int
    free_bytes: int
    backend: Backend
    found_by: str


def detect_gpus() -> tuple[Gpu, ...]:
    """List the GPUs of this machine from the first source that knows any; never raises."""
    sources: tuple[Callable[[], tuple[Gpu, ...]], ...] = (
        _from_nvml,
        _from_nvidia_smi,
        _from_metal,
        _from_dri,
    )
    for source in sources:
        if found := source():
            return found
    return ()


class _NvmlMemory(Protocol):
    total: int
    free: int


class _Nvml(Protocol):
    """The part of NVIDIA's optional package `nvidia-ml-py` that is used."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: object) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> _NvmlMemory: ...  # noqa: N802


def _from_nvml() -> tuple[Gpu, ...]:
    try:
        nvml = cast("_Nvml", importlib.import_module("pynvml"))
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        return tuple(_nvml_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _nvml_gpu(nvml: _Nvml, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name, memory = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(
        name=name.decode() if isinstance(name, bytes) else name,
        total_bytes=memory.total,
        free_bytes=memory.free,
        backend="cuda",
        found_by="nvml",
    )


def _from_nvidia_smi() -> tuple[Gpu, ...]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    return parse_nvidia_smi(_output(query))


def parse_nvidia_smi(output: str) -> tuple[Gpu, ...]:
    """Read the lines `name, total MiB, free MiB`; a figure the driver hides reads as not known."""
    gpus: list[Gpu] = []
    for line in output.splitlines():
        fields = [field.strip() for field in line.rsplit(",", 2)]
        if len(fields) != 3 or not fields[0]:
            continue
        total_bytes, free_bytes = (int(field) << 20 if field.isdigit() else 0 for field in fields[1:])
        gpus.append(
            Gpu(
                name=fields[0],
                total_bytes=total_bytes,
                free_bytes=free_bytes,
                backend="cuda",
                found_by="nvidia-smi",
            )
        )
    return tuple(gpus)


def _from_metal() -> tuple[Gpu, ...]:
    if (platform.system(), platform.machine()) != ("Darwin", "arm64"):
        return ()
    name = _output(["sysctl", "-n", "machdep.cpu.brand_string"]).strip() or "Apple GPU"
    return (Gpu(name=name, total_bytes=0, free_bytes=0, backend="metal", found_by="macOS"),)


def _from_dri() -> tuple[Gpu, ...]:
    try:
        nodes = sorted(_RENDER_NODES.glob("renderD*"))
    except OSError:
        return ()
    return tuple(
        Gpu(
            name=f"render node {node}",
            total_bytes=0,
            free_bytes=0,
            backend="vulkan",
            found_by=str(node.parent),
        )
        for node in nodes
    )


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
