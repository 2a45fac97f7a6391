"""Energy of the processor (RAPL) and of NVIDIA GPUs (NVML) where the machine says it, and otherwise why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rapl:
    """The counters that can be read, the names of those that cannot, and why."""

    domains: tuple[RaplDomain, ...] = ()
    unreadable: tuple[str, ...] = ()
    why_not: str = "the kernel offers no RAPL counters"


def find_rapl(folder: Path = _POWERCAP) -> Rapl:
    """Find the counters of packages and memory. Cores and graphics are parts of a package and are not counted again."""
    found: list[RaplDomain] = []
    unreadable: list[str] = []
    why_not = Rapl().why_not
    for zone in sorted(folder.glob("*-rapl:*")):
        name = ""
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            if not (name.startswith("package") or name == "dram"):
                continue
            domain = RaplDomain(
                name, zone / "energy_uj", int((zone / "max_energy_range_uj").read_text("ascii"))
            )
            domain.read_uj()
        except PermissionError:
            why_not = "only root may read the RAPL counters"
            unreadable.append(name)
        except (OSError, ValueError):
            unreadable.append(name)
        else:
            found.append(domain)
    return Rapl(domains=tuple(found), unreadable=tuple(filter(None, unreadable)), why_not=why_not)


class EnergyMeter:
    """Measures spans with every counter there is. GPU counters have not run on hardware."""

    def __init__(
        self,
        *,
        powercap: Path = _POWERCAP,
        gpus: Callable[[], Sequence[GpuState]] = read_gpus,
    ) -> None:
        self._rapl = find_rapl(powercap)
        self._read_gpus = gpus
        self._gpu_count = len(self._gpu_joules())

    @property
    def is_available(self) -> bool:
        """Whether anything measures."""
        return bool(self._rapl.domains) or self._gpu_count > 0

    @property
    def source(self) -> str:
        """What measures, what of it is missing, or that nothing does and why."""
        parts = []
        if self._rapl.domains:
            missing = f" without {', '.join(self._rapl.unreadable)}" if self._rapl.unreadable else ""
            parts.append(f"RAPL {', '.join(domain.name for domain in self._rapl.domains)}{missing}")
        if self._gpu_count:
            parts.append(f"NVML of {self._gpu_count} GPUs")
        return " + ".join(parts) or f"{NOT_MEASURABLE}: {self._rapl.why_not}; no NVIDIA driver counts energy"

    @contextmanager
    def measuring(self) -> Iterator[UsedEnergy]:
        """Measure the block; the machine's whole energy, others' included. Unknown where a counter stops answering."""
        used = UsedEnergy()
        if not self.is_available:
            yield used
            return
        before_uj, gpus_before_j = self._microjoules(), self._gpu_joules()
        try:
            yield used
        finally:
            used.joules = _sum_known(
                self._processor_joules(before_uj), _gpu_difference(gpus_before_j, self._gpu_joules())
            )

    def _microjoules(self) -> list[int] | None:
        try:
            return [domain.read_uj() for domain in self._rapl.domains]
        except (OSError, ValueError):
            return None

    def _processor_joules(self, before_uj: list[int] | None) -> float | None:
        after_uj = self._microjoules()
        if before_uj is None or after_uj is None:
            return None
        return _MICRO * sum(
            (later - earlier) % (domain.range_uj + 1)
            for domain, earlier, later in zip(self._rapl.domains, before_uj, after_uj, strict=True)
        )

    def _gpu_joules(self) -> dict[str, float]:
        return {gpu.uuid: gpu.energy_j for gpu in self._read_gpus() if gpu.energy_j is not None}


def _gpu_difference(before_j: Mapping[str, float], after_j: Mapping[str, float]) -> float | None:
    """Joules of all GPUs; unknown where one is gone or its driver began to count anew."""
    if before_j.keys() != after_j.keys():
        return None
    used_j = [after_j[uuid] - before_j[uuid] for uuid in before_j]
    return sum(used_j) if min(used_j, default=0.0) >= 0 else None


def _sum_known(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
