"""What memory this process can still have, and what its processor can do."""

from __future__ import annotations

import platform
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CPU_INFO = Path("/proc/cpuinfo")
_UNLIMITED = 1 << 60


def read_free_bytes(cgroup_root: Path = _CGROUP_ROOT, own_cgroup: Path = Path("/proc/self/cgroup")) -> int:
    """Return the memory that can be had: the machine's, or less where a control group limits this process."""
    import psutil

    free: int = psutil.virtual_memory().available
    for folder in _cgroup_folders(cgroup_root, own_cgroup):
        room = _cgroup_room(folder)
        if room is not None:
            free = min(free, room)
    return max(free, 0)


def read_cpu_features() -> frozenset[str]:
    """Return the processor's features by the names of /proc/cpuinfo."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Every Apple processor has the dot product instructions.
        return frozenset({"asimddp", "i8mm"}) if platform.machine() == "arm64" else frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in {"flags", "features"}:
            return frozenset(value.lower().split())
    return frozenset()


def _cgroup_folders(root: Path, own: Path) -> list[Path]:
    """Return this process's control group and those above it: the tightest limit counts."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers not in {"", "memory"} and "memory" not in controllers.split(","):
            continue
        base = root / "memory" if controllers else root
        folder = base / path.lstrip("/")
        while True:
            folders.append(folder)
            if folder in {base, folder.parent}:
                break
            folder = folder.parent
    return folders


def _cgroup_room(folder: Path) -> int | None:
    """Return the limit less what is used; file pages that can be dropped do not count as used."""
    for limit_name, usage_name, cache_name in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _number(folder / limit_name)
        usage = _number(folder / usage_name)
        if limit is None or usage is None or limit >= _UNLIMITED:
            continue
        return limit - usage + _statistic(folder / "memory.stat", cache_name)
    return None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _statistic(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    for line in lines:
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0
