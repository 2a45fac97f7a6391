"""Finds out which processor this machine has. Standard library only, at import and in use."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_CPU_FOLDER = Path("/sys/devices/system/cpu")
_SYSCTL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Architecture, name and instruction-set features as the operating system reports them."""

    system: str
    architecture: str
    name: str
    features: frozenset[str]
    physical_cores: int

    @property
    def is_x86(self) -> bool:
        """Whether this is a 64-bit x86 processor."""
        return self.architecture in ("x86_64", "amd64")

    @property
    def has_amx(self) -> bool:
        """Whether the matrix tiles are there and the kernel lets programs use them."""
        return "amx_tile" in self.features


def detect_processor() -> Processor:
    """Read the processor of this machine."""
    system, architecture = platform.system().lower(), platform.machine().lower()
    if system == "darwin":
        return _from_sysctl(architecture)
    try:
        cpuinfo = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        cpuinfo = ""
    return parse_cpuinfo(cpuinfo, system=system, architecture=architecture)


def parse_cpuinfo(text: str, *, system: str, architecture: str) -> Processor:
    """Read the first processor of a Linux `/proc/cpuinfo`; x86 says `flags`, Arm says `Features`."""
    fields: dict[str, str] = {}
    for line in text.split("\n\n", 1)[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip().lower()] = value.strip()
    return Processor(
        system=system,
        architecture=architecture,
        name=fields.get("model name") or platform.processor() or architecture,
        features=frozenset((fields.get("flags") or fields.get("features", "")).lower().split()),
        physical_cores=_count_physical_cores(),
    )


def _from_sysctl(architecture: str) -> Processor:
    listed = f"{_sysctl('machdep.cpu.features')} {_sysctl('machdep.cpu.leaf7_features')}".lower().split()
    arm = [
        line.partition(":")[0].rpartition(".")[2].lower()
        for line in _sysctl("hw.optional.arm", by_name=True).splitlines()
        if line.endswith(": 1")
    ]
    cores = _sysctl("hw.perflevel0.physicalcpu") or _sysctl("hw.physicalcpu")
    return Processor(
        system="darwin",
        architecture=architecture,
        name=_sysctl("machdep.cpu.brand_string") or architecture,
        features=frozenset([*("avx2" if name == "avx2.0" else name for name in listed), *arm]),
        physical_cores=int(cores) if cores.isdigit() else os.cpu_count() or 1,
    )


def _sysctl(name: str, *, by_name: bool = False) -> str:
    command = ["sysctl", name] if by_name else ["sysctl", "-n", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SYSCTL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _count_physical_cores() -> int:
    """Count cores this process may run on, hyper-threads once. Containers often hide the topology."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores: set[str] = set()
    for cpu in allowed:
        try:
            cores.add((_CPU_FOLDER / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip())
        except OSError:
            return len(allowed)
    return len(cores) or 1
