"""How much of the machine others used while something was measured, so that a noisy figure is called one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import psutil

from benchmarks.fingerprint import usable_cores

NOISY_FOREIGN_SHARE = 0.05
NOISY_VARIATION = 0.05
NOISY_LOAD_PER_CORE = 0.25
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


_BUSY = "the machine was busy before"
_OTHERS = "other programs used"


@dataclass(slots=True)
class CpuUse:
    """CPU seconds during a span: of this process and its children, and of everything else."""

    wall_s: float = 0.0
    own_s: float = 0.0
    foreign_s: float = 0.0
    stolen_s: float = 0.0

    @property
    def foreign_share(self) -> float:
        """Part of the machine's CPU time that went to others, the hypervisor's other guests included."""
        available_s = self.wall_s * (psutil.cpu_count() or 1)
        return (self.foreign_s + self.stolen_s) / available_s if available_s else 0.0


@contextlib.contextmanager
def watch_cpu(measured_pid: int | None = None) -> Iterator[CpuUse]:
    """Measure who used the CPU in the block; the result is filled in at its end.

    Args:
        measured_pid: a server that is measured; it and its children are no others.
    """
    use = CpuUse()
    began_s, busy_s, stolen_s, own_s = monotonic(), *_system_cpu_s(), own_cpu_s(measured_pid)
    try:
        yield use
    finally:
        busy_after_s, stolen_after_s = _system_cpu_s()
        use.wall_s = monotonic() - began_s
        use.own_s = max(0.0, own_cpu_s(measured_pid) - own_s)
        use.stolen_s = max(0.0, stolen_after_s - stolen_s)
        use.foreign_s = max(0.0, busy_after_s - busy_s - use.own_s)


def own_cpu_s(measured_pid: int | None = None) -> float:
    """CPU seconds of this process and of a server that is measured, with their children, running and ended."""
    total_s = _tree_cpu_s(psutil.Process())
    if measured_pid is not None:
        with contextlib.suppress(psutil.Error):
            total_s += _tree_cpu_s(psutil.Process(measured_pid))
    return total_s


def listening_pid(host: str, port: int) -> int | None:
    """The process on this machine that listens there; None where it is another machine's, or not told."""
    if host not in LOOPBACK:
        return None
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None
    pids = [one.pid for one in connections if one.status == psutil.CONN_LISTEN and one.laddr[1:2] == (port,)]
    return next((pid for pid in pids if pid is not None), None)


def _tree_cpu_s(process: psutil.Process) -> float:
    total_s: float = sum(process.cpu_times()[:4])
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total_s += sum(child.cpu_times()[:4])
    return total_s


def process_cpu_s(pid: int) -> float:
    """CPU seconds of one process, all its threads: in nanoseconds where Linux says it, otherwise in ticks of 10 ms."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in tasks) / 1e9
    except (OSError, ValueError, IndexError):
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system


def reasons_for_doubt(
    *, load_before: float, foreign_shares: Sequence[float], variations: Sequence[float]
) -> list[str]:
    """Say why a run may not be trusted; an empty list means nothing spoke against it."""
    reasons = []
    load_per_core = load_before / usable_cores()
    if load_per_core > NOISY_LOAD_PER_CORE:
        reasons.append(f"{_BUSY}: load {load_per_core:.2f} a core")
    if foreign_shares and max(foreign_shares) > NOISY_FOREIGN_SHARE:
        worst, mean = max(foreign_shares), sum(foreign_shares) / len(foreign_shares)
        reasons.append(f"{_OTHERS} {mean:.0%} of the CPU on average, {worst:.0%} in the worst round")
    if variations and max(variations) > NOISY_VARIATION:
        reasons.append(f"rounds of one measurement vary by up to {max(variations):.0%}")
    return reasons


def is_noise(doubts: Sequence[str]) -> bool:
    """Whether one of the doubts is that others used the machine."""
    return any(doubt.startswith((_BUSY, _OTHERS)) for doubt in doubts)


def _system_cpu_s() -> tuple[float, float]:
    """Busy and stolen CPU seconds of the whole machine since it started."""
    times = psutil.cpu_times()
    stolen_s: float = getattr(times, "steal", 0.0)
    waiting_s: float = getattr(times, "iowait", 0.0)
    guest_s: float = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - times.idle - waiting_s - stolen_s - guest_s, stolen_s
