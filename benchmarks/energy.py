"""Energy of the processor (RAPL) and of NVIDIA GPUs (NVML) where the machine says it, and otherwise why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nvidia import GpuState, read_gpus

NOT_MEASURABLE = "not measurable here"
_POWERCAP = Path("/sys/class/powercap")
_MICRO = 1e-6


@dataclass(slots=True)
class UsedEnergy:
    """Joules of a span; None until it ended, and where nothing measures."""

    joules: float | None = None


@dataclass(frozen=True, slots=True)
class RaplDomain:
    """One counter of the processor; it wraps at `range_uj`."""

    name: str
    path: Path
    range_uj: int

    def read_uj(self) -> int:
        """Microjoules since some moment."""
        return int(self.path.read_text(encoding="ascii"))


def rapl_domains(folder: Path = _POWERCAP) -> tuple[tuple[RaplDomain, ...], str]:
    """Find the readable counters of packages and memory, and say why there are none.

    Cores and graphics are parts of a package and are not counted again.
    """
    found: list[RaplDomain] = []
    reason = "the kernel offers no RAPL counters"
    for zone in sorted(folder.glob("*-rapl:*")):
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            if not (name.startswith("package") or name == "dram"):
                continue
            domain = RaplDomain(
                name, zone / "energy_uj", int((zone / "max_energy_range_uj").read_text("ascii"))
            )
            domain.read_uj()
        except PermissionError:
            reason = "only root may read the RAPL counters"
        except (OSError, ValueError):
            continue
        else:
            found.append(domain)
    return tuple(found), "" if found else reason


class EnergyMeter:
    """Measures spans with every counter there is. GPU counters have not run on hardware."""

    def __init__(
        self,
        *,
        powercap: Path = _POWERCAP,
        gpus: Callable[[], Sequence[GpuState]] = read_gpus,
    ) -> None:
        self._domains, self._why_not = rapl_domains(powercap)
        self._read_gpus = gpus
        self._gpu_count = sum(gpu.energy_j is not None for gpu in gpus())

    @property
    def is_available(self) -> bool:
        """Whether anything measures."""
        return bool(self._domains) or self._gpu_count > 0

    @property
    def source(self) -> str:
        """What measures, or that nothing does and why."""
        parts = [f"RAPL {', '.join(domain.name for domain in self._domains)}"] if self._domains else []
        if self._gpu_count:
            parts.append(f"NVML of {self._gpu_count} GPUs")
        return " + ".join(parts) or f"{NOT_MEASURABLE}: {self._why_not}; no NVIDIA driver counts energy"

    @contextmanager
    def measuring(self) -> Iterator[UsedEnergy]:
        """Measure the block; the machine's whole energy, others' included."""
        used = UsedEnergy()
        if not self.is_available:
            yield used
            return
        before = [domain.read_uj() for domain in self._domains]
        gpus_before_j = self._gpu_joules()
        try:
            yield used
        finally:
            microjoules = sum(
                (domain.read_uj() - earlier) % (domain.range_uj + 1)
                for domain, earlier in zip(self._domains, before, strict=True)
            )
            used.joules = microjoules * _MICRO + self._gpu_joules() - gpus_before_j

    def _gpu_joules(self) -> float:
        if not self._gpu_count:
            return 0.0
        return sum(gpu.energy_j for gpu in self._read_gpus() if gpu.energy_j is not None)
