# ruff: noqa: N802  the driver's own names
"""Counters of energy and NVIDIA GPUs, against answers in the form that kernel and driver document."""

import inspect
import itertools
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from benchmarks.energy import NOT_MEASURABLE, EnergyMeter, find_rapl
from benchmarks.nvidia import SLOWDOWNS, GpuState, NvmlMemory, NvmlUtilization, read_gpus


class NotSupportedError(Exception):
    """What the driver raises for what a GPU does not say."""


class RecordedDriver:
    """An NVIDIA driver 580 with an H200 that says everything and a GT 1030 that says little."""

    NVMLError = NotSupportedError
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __init__(self, *, is_there: bool = True) -> None:
        self._is_there = is_there
        self.opened = 0

    def nvmlInit(self) -> None:
        if not self._is_there:
            raise NotSupportedError
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:
        return ("NVIDIA H200", b"NVIDIA GeForce GT 1030")[handle]

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return ("GPU-6f1c", "GPU-77aa")[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> NvmlMemory:
        total = (150_754_820_096, 2_147_483_648)[handle]
        return pynvml.c_nvmlMemory_t(total=total, free=total - 455_606_272, used=455_606_272)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> NvmlUtilization:
        return pynvml.c_nvmlUtilization_t(gpu=self._said(handle, 37), memory=12)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return self._said(handle, 41)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return self._said(handle, 1980)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return self._said(handle, 118_432)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self._said(handle, 3_204_118_560)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self._said(handle, 0x4 | 0x40 | 0x1)

    def _said(self, handle: int, value: int) -> int:
        if handle == 1:
            raise NotSupportedError
        return value


def test_a_gpu_that_says_everything_is_read_in_our_units() -> None:
    driver = RecordedDriver()

    gpu, _ = read_gpus(driver)

    assert (gpu.name, gpu.driver, gpu.total_bytes) == ("NVIDIA H200", "580.95.05", 150_754_820_096)
    assert (gpu.utilisation_percent, gpu.temperature_c, gpu.clock_mhz) == (37, 41, 1980)
    assert (gpu.power_w, gpu.energy_j) == (118.432, 3_204_118.56)
    assert gpu.slowdowns == ("power cap", "thermal limit (hardware)")
    assert driver.opened == 0


def test_a_gpu_that_says_little_is_read_as_far_as_it_does() -> None:
    _, gpu = read_gpus(RecordedDriver())

    assert gpu.name == "NVIDIA GeForce GT 1030"
    assert (gpu.utilisation_percent, gpu.power_w, gpu.energy_j, gpu.slowdowns) == (None, None, None, ())


def test_without_a_driver_there_is_no_gpu() -> None:
    assert read_gpus(RecordedDriver(is_there=False)) == ()


def _powercap(folder: Path, **energies: int) -> Path:
    for number, (name, energy_uj) in enumerate(energies.items()):
        zone = folder / f"intel-rapl:{number}"
        zone.mkdir(parents=True)
        (zone / "name").write_text(f"{name.replace('_', '-')}\n")
        (zone / "energy_uj").write_text(f"{energy_uj}\n")
        (zone / "max_energy_range_uj").write_text("262143328850\n")
    return folder


def _set(folder: Path, number: int, energy_uj: int) -> None:
    (folder / f"intel-rapl:{number}" / "energy_uj").write_text(f"{energy_uj}\n")


def test_packages_and_memory_are_summed_and_parts_of_a_package_are_not(tmp_path: Path) -> None:
    folder = _powercap(tmp_path, package_0=1_000_000, core=5_000_000, dram=2_000_000)
    meter = EnergyMeter(powercap=folder, gpus=lambda: ())

    with meter.measuring() as used:
        _set(folder, 0, 4_000_000)
        _set(folder, 1, 9_000_000)
        _set(folder, 2, 2_500_000)

    assert used.joules == pytest.approx(3.5)
    assert meter.source == "RAPL package-0, dram"


def test_a_counter_that_wraps_around_goes_on_counting(tmp_path: Path) -> None:
    folder = _powercap(tmp_path, package_0=262_143_000_000)
    meter = EnergyMeter(powercap=folder, gpus=lambda: ())

    with meter.measuring() as used:
        _set(folder, 0, 671_150)

    assert used.joules == pytest.approx(1.000001, abs=1e-5)


def test_a_counter_that_reached_its_end_between_two_readings_lost_one_unit_at_most(tmp_path: Path) -> None:
    """The kernel counts 32 bits of a unit of 61 microjoules; the range it tells is the largest value."""
    unit_uj = 61
    folder = _powercap(tmp_path, package_0=262_143_328_850)
    meter = EnergyMeter(powercap=folder, gpus=lambda: ())

    with meter.measuring() as used:
        _set(folder, 0, 0)

    assert used.joules == pytest.approx(0.0, abs=unit_uj * 1e-6)


def test_packages_of_several_sockets_are_summed_and_the_platform_is_not(tmp_path: Path) -> None:
    folder = _powercap(tmp_path, package_0=0, package_1=0, psys=0, package_2_die_1=0)
    meter = EnergyMeter(powercap=folder, gpus=lambda: ())

    with meter.measuring() as used:
        for number in range(4):
            _set(folder, number, 1_000_000 * 10**number)

    assert used.joules == pytest.approx(1 + 10 + 1000)
    assert meter.source == "RAPL package-0, package-1, package-2-die-1"


class LockedFolder(type(Path())):  # type: ignore[misc]  # the class of paths of this system
    """A folder whose counters only root may read, whoever runs the test."""

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return str(super().read_text(encoding=encoding, errors=errors))


def test_counters_that_only_root_may_read_are_told_apart_from_none(tmp_path: Path) -> None:
    _powercap(tmp_path, package_0=1)

    meter = EnergyMeter(powercap=LockedFolder(tmp_path), gpus=lambda: ())

    assert "only root may read the RAPL counters" in meter.source
    assert not meter.is_available


def test_a_counter_that_answers_no_more_makes_the_energy_unknown(tmp_path: Path) -> None:
    folder = _powercap(tmp_path, package_0=1, package_1=1)
    meter = EnergyMeter(powercap=folder, gpus=lambda: ())

    with meter.measuring() as used:
        (folder / "intel-rapl:1" / "energy_uj").write_text("")

    assert used.joules is None


def test_a_package_that_cannot_be_read_is_named_beside_the_others(tmp_path: Path) -> None:
    folder = _powercap(tmp_path, package_0=1, package_1=1)
    (folder / "intel-rapl:1" / "energy_uj").write_text("?")

    assert EnergyMeter(powercap=folder, gpus=lambda: ()).source == "RAPL package-0 without package-1"


@pytest.mark.parametrize("after_j", [(), (90.0,)])
def test_a_gpu_that_is_gone_or_counts_anew_makes_the_energy_unknown(after_j: tuple[float, ...]) -> None:
    gpu = replace(_gpu(), energy_j=100.0)
    states = itertools.chain([[gpu], [gpu]], [[replace(gpu, energy_j=joules) for joules in after_j]])
    meter = EnergyMeter(powercap=Path("/nowhere"), gpus=lambda: next(states))

    with meter.measuring() as used:
        pass

    assert used.joules is None


def test_energy_of_gpus_is_added() -> None:
    first = replace(_gpu(), energy_j=100.0)
    states = iter([(first,), (first,), (replace(first, energy_j=142.5),)])
    meter = EnergyMeter(powercap=Path("/nowhere"), gpus=lambda: next(states))

    with meter.measuring() as used:
        pass

    assert used.joules == pytest.approx(42.5)
    assert meter.source == "NVML of 1 GPUs"


def test_where_nothing_counts_the_energy_is_not_known_and_the_reason_is_said(tmp_path: Path) -> None:
    meter = EnergyMeter(powercap=tmp_path, gpus=lambda: (replace(_gpu(), energy_j=None),))

    with meter.measuring() as used:
        pass

    assert (used.joules, meter.is_available) == (None, False)
    assert meter.source.startswith(NOT_MEASURABLE)
    assert "no RAPL counters" in meter.source


def test_a_counter_with_a_range_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    folder = _powercap(tmp_path, package_0=1)
    (folder / "intel-rapl:0" / "max_energy_range_uj").write_text("unlimited\n")

    assert find_rapl(folder).domains == ()


def _gpu() -> GpuState:
    return read_gpus(RecordedDriver())[0]


class FailingDriver(RecordedDriver):
    """The first GPU fell off its bus; the second shares its memory with the processor and does not count it."""

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:
        if handle == 0:
            raise NotSupportedError
        return super().nvmlDeviceGetName(handle)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> NvmlMemory:
        raise NotSupportedError


def test_a_gpu_that_answers_nothing_hides_no_other() -> None:
    (gpu,) = read_gpus(FailingDriver())

    assert (gpu.index, gpu.total_bytes, gpu.free_bytes) == (1, None, None)


def test_slowdowns_are_the_bits_that_the_library_names() -> None:
    assert {bit: name for bit, name in SLOWDOWNS.items() if "hardware" in name or "cap" in name} == {
        pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
        pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
        pynvml.nvmlClocksEventReasonHwThermalSlowdown: "thermal limit (hardware)",
    }
    assert SLOWDOWNS[pynvml.nvmlClocksEventReasonSwThermalSlowdown] == "thermal limit (software)"
    assert SLOWDOWNS[pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown] == "power brake"


def test_the_installed_library_without_a_driver_is_no_error() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")

    assert read_gpus() == ()


class MismatchedDriver(RecordedDriver):
    """Opens and then says that library and driver are of different versions."""

    def nvmlSystemGetDriverVersion(self) -> str:
        raise NotSupportedError


def test_a_driver_that_answers_nothing_is_no_gpu() -> None:
    driver = MismatchedDriver()

    assert (read_gpus(driver), driver.opened) == ((), 0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nvmlInit", ()), ("nvmlShutdown", ()), ("nvmlSystemGetDriverVersion", ()), ("nvmlDeviceGetCount", ()),
        ("nvmlDeviceGetHandleByIndex", (0,)), ("nvmlDeviceGetName", (0,)), ("nvmlDeviceGetUUID", (0,)),
        ("nvmlDeviceGetMemoryInfo", (0,)), ("nvmlDeviceGetUtilizationRates", (0,)),
        ("nvmlDeviceGetTemperature", (0, pynvml.NVML_TEMPERATURE_GPU)),
        ("nvmlDeviceGetClockInfo", (0, pynvml.NVML_CLOCK_SM)), ("nvmlDeviceGetPowerUsage", (0,)),
        ("nvmlDeviceGetTotalEnergyConsumption", (0,)), ("nvmlDeviceGetCurrentClocksEventReasons", (0,)),
    ],
)  # fmt: skip
def test_the_installed_library_takes_every_call_as_it_is_made(name: str, arguments: tuple[int, ...]) -> None:
    assert inspect.signature(getattr(pynvml, name)).bind(*arguments).args == arguments
