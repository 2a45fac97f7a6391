"""NVIDIA GPUs through NVIDIA's own library: what they are, what they do, and the energy they used.

Tested against answers in the form that NVIDIA documents; no NVIDIA GPU has run it.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

_UTF8 = "utf-8"


class NvmlMemory(Protocol):
    """Memory of a device in bytes."""

    total: int
    free: int
    used: int


class NvmlUtilization(Protocol):
    """Percent of the last sampling period in which something ran."""

    gpu: int
    memory: int


class Nvml(Protocol):
    """The part of the library `pynvml` that is used."""

    NVMLError: type[Exception]
    NVML_TEMPERATURE_GPU: int
    NVML_CLOCK_SM: int

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: object) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetUUID(self, handle: object) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> NvmlMemory: ...  # noqa: N802
    def nvmlDeviceGetUtilizationRates(self, handle: object) -> NvmlUtilization: ...  # noqa: N802
    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetClockInfo(self, handle: object, kind: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetPowerUsage(self, handle: object) -> int: ...  # noqa: N802
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int: ...  # noqa: N802
    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int: ...  # noqa: N802


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One GPU at one moment; None is what its driver does not say."""

    index: int
    name: str
    uuid: str
    driver: str
    total_bytes: int | None
    free_bytes: int | None
    utilisation_percent: int | None
    temperature_c: int | None
    clock_mhz: int | None
    power_w: float | None
    energy_j: float | None
    slowdowns: tuple[str, ...]


# Bits of nvmlClocksEventReason*; idle and a clock the user chose are no slowdowns.
SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}


def read_gpus(nvml: Nvml | None = None) -> tuple[GpuState, ...]:
    """Return every NVIDIA GPU; nothing where there is no driver, or none that answers."""
    with _opened(nvml or load_nvml()) as library:
        if library is None:
            return ()
        try:
            return tuple(_states(library, _text(library.nvmlSystemGetDriverVersion())))
        except library.NVMLError:
            return ()


def load_nvml() -> Nvml | None:
    """Import NVIDIA's library; None where it is not installed."""
    try:
        return cast("Nvml", importlib.import_module("pynvml"))
    except ImportError:
        return None


@contextlib.contextmanager
def _opened(nvml: Nvml | None) -> Iterator[Nvml | None]:
    """Open the driver; None where there is none."""
    if nvml is None:
        yield None
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _states(nvml: Nvml, driver: str) -> Iterator[GpuState]:
    for index in range(nvml.nvmlDeviceGetCount()):
        # A GPU that fell off its bus answers nothing any more.
        with contextlib.suppress(nvml.NVMLError):
            yield _state(nvml, index, driver)


def _state(nvml: Nvml, index: int, driver: str) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = utilisation = temperature = clock = power_mw = energy_mj = None
    reasons = 0
    # A driver refuses each of these on some GPUs; what it says of the others still counts.
    with contextlib.suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    with contextlib.suppress(nvml.NVMLError):
        utilisation = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
    with contextlib.suppress(nvml.NVMLError):
        temperature = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
    with contextlib.suppress(nvml.NVMLError):
        clock = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
    with contextlib.suppress(nvml.NVMLError):
        power_mw = nvml.nvmlDeviceGetPowerUsage(handle)
    with contextlib.suppress(nvml.NVMLError):
        energy_mj = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    with contextlib.suppress(nvml.NVMLError):
        reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    return GpuState(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        driver=driver,
        total_bytes=memory.total if memory else None,
        free_bytes=memory.free if memory else None,
        utilisation_percent=utilisation,
        temperature_c=temperature,
        clock_mhz=clock,
        power_w=None if power_mw is None else power_mw / 1000,
        energy_j=None if energy_mj is None else energy_mj / 1000,
        slowdowns=tuple(name for bit, name in SLOWDOWNS.items() if reasons & bit),
    )


def _text(value: str | bytes) -> str:
    return value.decode(_UTF8, "replace") if isinstance(value, bytes) else value
