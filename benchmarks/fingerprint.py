"""What a figure depends on: processor, memory, system, libraries, build flags, models, and the load before."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import psutil

from appliance.engine.build_record import read_installed_build
from appliance.engine.processor import detect_processor

LIBRARIES = ("appliance", "llama-cpp-python", "numpy", "pydantic", "llguidance", "psutil")
OPENMP_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
)
UNKNOWN = "unknown"

_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Facts of one machine and installation. Figures of unlike fingerprints are not comparable.

    `load_before` is the runnable processes averaged over the last minute; unlike the rest it is a state, not a fact
    of the machine.
    """

    processor: str
    architecture: str
    physical_cores: int
    logical_cores: int
    usable_cores: int
    features: tuple[str, ...]
    is_virtual: bool
    governor: str
    memory_bytes: int
    available_memory_bytes: int
    system: str
    python: str
    libraries: Mapping[str, str]
    engine_build: str
    engine_flags: str
    compiler: str
    openmp: Mapping[str, str]
    models: Mapping[str, str]
    load_before: float

    def to_json(self) -> str:
        """Write as one JSON object with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True)


def take_fingerprint(models: Mapping[str, str]) -> Fingerprint:
    """Read the facts of this machine now.

    Args:
        models: sha256 of the weights by name of the model.
    """
    processor = detect_processor()
    build = read_installed_build()
    memory = psutil.virtual_memory()
    return Fingerprint(
        processor=processor.name,
        architecture=processor.architecture,
        physical_cores=processor.physical_cores,
        logical_cores=os.cpu_count() or 1,
        usable_cores=usable_cores(),
        features=tuple(sorted(processor.features)),
        is_virtual="hypervisor" in processor.features,
        governor=_governor(),
        memory_bytes=memory.total,
        available_memory_bytes=memory.available,
        system=platform.platform(),
        python=platform.python_version(),
        libraries={name: _version(name) for name in LIBRARIES},
        engine_build=build.profile if build else UNKNOWN,
        engine_flags=build.flags if build else UNKNOWN,
        compiler=build.compiler if build else UNKNOWN,
        openmp={name: os.environ[name] for name in OPENMP_VARIABLES if name in os.environ},
        models=dict(models),
        load_before=psutil.getloadavg()[0],
    )


def unlike_facts(first: Fingerprint, second: Fingerprint) -> Sequence[str]:
    """Names of the facts that differ; what changes from minute to minute is left out."""
    states = {"load_before", "available_memory_bytes"}
    one, other = asdict(first), asdict(second)
    return [name for name in one if name not in states and one[name] != other[name]]


def usable_cores() -> int:
    """Logical cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _governor() -> str:
    """The frequency governors in use; virtual machines usually show none."""
    found = set()
    for path in Path("/").glob(_GOVERNORS.lstrip("/")):
        try:
            found.add(path.read_text(encoding="ascii").strip())
        except OSError:
            continue
    return ", ".join(sorted(found)) or UNKNOWN
