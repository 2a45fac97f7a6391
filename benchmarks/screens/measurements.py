"""The measurements: an answer that streams, keys typed meanwhile, a long chat, and the start."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from appliance.core.errors import InternalError
from benchmarks.screens.scene import (
    LAST_WORDS,
    MODEL,
    long_answer,
    long_code,
    long_table,
    script_of,
    write_chat,
)
from benchmarks.screens.terminal import Burst, Terminal, start

Figures = dict[str, float]
Report = dict[str, Figures | float]
# None of them stands in the answer, so that one that is written is the echo of a key.
_KEYS = "абвгдежзиклмнопрстуфхцчшщыэюя"
_PHASE_S = 10.0
_PAGES = 50
_PAGE_UP, _PAGE_DOWN, _CTRL_HOME, _CTRL_END = "\x1b[5~", "\x1b[6~", "\x1b[1;5H", "\x1b[1;5F"
# A cursor that blinks writes this much, though a key did nothing.
_BLINK_BYTES = 500
_CLEAR_LINE = "\x15"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is measured. `source` is a folder with the program's sources."""

    source: Path
    tokens: int = 10_000
    block_tokens: int = 4_000
    token_s: float = 0.009
    turns: int = 1_000
    starts: int = 5
    columns: int = 100
    rows: int = 30


@dataclass(slots=True, kw_only=True)
class _Stay:
    """A home of its own for the program, so that nothing of the user's is read or changed."""

    wanted: Wanted
    home: Path

    def run(self, command: Sequence[str]) -> Terminal:
        wanted = self.wanted
        return start(
            command,
            folder=wanted.source,
            environment=self.environment(),
            columns=wanted.columns,
            rows=wanted.rows,
        )

    def environment(self) -> dict[str, str]:
        folders = {f"XDG_{name}_HOME": str(self.home / name) for name in ("DATA", "STATE", "CACHE", "CONFIG")}
        script = {"APPLIANCE_SCRIPT": str(self.home / "script.toml"), "APPLIANCE_MODEL": MODEL}
        return {**folders, **script, "APPLIANCE_FACTS": "off"}


@contextmanager
def _stay(wanted: Wanted, text: str = "") -> Iterator[_Stay]:
    with tempfile.TemporaryDirectory(prefix="screens-") as folder:
        home = Path(folder)
        (home / "script.toml").write_text(script_of(text or LAST_WORDS, wanted.token_s), encoding="utf-8")
        yield _Stay(wanted=wanted, home=home)


def measure_start(wanted: Wanted) -> Report:
    """Measure how long it takes to the frame, to the interface that takes keys, and to the open store."""
    rounds: list[tuple[float, float, float, float]] = []
    with _stay(wanted) as stay:
        for _ in range(wanted.starts + 1):
            began_s = time.perf_counter()
            terminal = stay.run([sys.executable, "-m", "appliance"])
            frame_s = terminal.wait_for("starting") - began_s
            painted_s = terminal.wait_for("Ask something") - began_s
            cpu_s = terminal.cpu_s()
            ready_s = terminal.wait_for("ready") - began_s
            terminal.close()
            rounds.append((frame_s, painted_s, cpu_s, ready_s))
    # The first round fills the caches of the disk.
    columns = zip(*rounds[1:], strict=True)
    names = ("frame_s", "first_screen_s", "first_screen_cpu_s", "ready_s")
    return {
        name: round(sorted(column)[len(column) // 2], 3) for name, column in zip(names, columns, strict=True)
    }


def measure_answer(wanted: Wanted) -> Report:
    """Measure the thread that draws while a long answer streams, with keys typed half of the time."""
    return _measure_stream(wanted, long_answer(wanted.tokens))


def measure_table(wanted: Wanted) -> Report:
    """Measure the same while one long table streams."""
    return _measure_stream(wanted, long_table(wanted.block_tokens))


def measure_code(wanted: Wanted) -> Report:
    """Measure the same while one long block of code streams."""
    return _measure_stream(wanted, long_code(wanted.block_tokens))


def _measure_stream(wanted: Wanted, text: str) -> Report:
    with _stay(wanted, text) as stay:
        beats_file = stay.home / "beats.json"
        # The probe comes from here, the program from the folder that is measured.
        probe = Path(__file__).with_name("probe.py")
        command = [sys.executable, "-c", _PROBE, str(probe), str(beats_file)]
        terminal = stay.run(command)
        terminal.wait_for("ready")
        terminal.settle()
        followed = _follow(terminal, random.Random(7))
        terminal.close()
        beats = json.loads(beats_file.read_text(encoding="utf-8"))
    return followed.figures(beats, len(text.split()))


_PROBE = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@dataclass(slots=True, kw_only=True)
class _Followed:
    """What was seen of one answer: CPU time and wall time of the phases, and the times of echoes."""

    began_s: float
    ended_s: float
    written_bytes: int
    phases: list[tuple[bool, float, float]]
    echoes_s: list[float]

    def figures(self, beats: list[tuple[float, float]], tokens: int) -> Report:
        lateness = [late * 1000 for at, late in beats if self.began_s <= at <= self.ended_s]
        wall_s = self.ended_s - self.began_s
        quarter = max(1, len(self.phases) // 4)
        return {
            "tokens_per_s": round(tokens / wall_s, 1),
            "cpu_share": self._share(self.phases),
            "cpu_share_while_typing": self._share([phase for phase in self.phases if phase[0]]),
            "cpu_share_first_quarter": self._share(self.phases[:quarter]),
            "cpu_share_last_quarter": self._share(self.phases[-quarter:]),
            "written_bytes_per_s": round(self.written_bytes / wall_s),
            "loop_delay_ms": percentiles(lateness),
            "echo_ms": percentiles([echo * 1000 for echo in self.echoes_s]),
            "echoes": len(self.echoes_s),
        }

    def _share(self, phases: Sequence[tuple[bool, float, float]]) -> float:
        wall_s = sum(phase[2] for phase in phases)
        return round(sum(phase[1] for phase in phases) / wall_s, 4) if wall_s else 0.0


def _follow(terminal: Terminal, chance: random.Random) -> _Followed:
    terminal.forget()
    terminal.send("go\r")
    terminal.wait_for("Part 1")
    first_bytes = terminal.written_bytes
    began_s = time.perf_counter()
    phases: list[tuple[bool, float, float]] = []
    echoes_s: list[float] = []
    keys = cycle(_KEYS)
    while LAST_WORDS.encode() not in terminal.written:
        is_typing = len(phases) % 2 == 1
        cpu_s, at_s = terminal.drawing_cpu_s(), time.perf_counter()
        while time.perf_counter() - at_s < _PHASE_S and LAST_WORDS.encode() not in terminal.written:
            del terminal.written[:-20_000]
            if is_typing:
                echoes_s.append(_echo_s(terminal, next(keys)))
                _read_for(terminal, chance.uniform(0.1, 0.3))
            else:
                _read_for(terminal, 0.2)
        phases.append((is_typing, terminal.drawing_cpu_s() - cpu_s, time.perf_counter() - at_s))
        if is_typing:
            terminal.send(_CLEAR_LINE)
            _read_for(terminal, 0.5)
        if terminal.process.poll() is not None:
            raise InternalError("the program ended while it was measured")
    return _Followed(
        began_s=began_s,
        ended_s=time.perf_counter(),
        written_bytes=terminal.written_bytes - first_bytes,
        phases=phases,
        echoes_s=echoes_s,
    )


def _echo_s(terminal: Terminal, key: str, timeout_s: float = 5.0) -> float:
    """Press a key; return how long it took until the letter was written."""
    began_s = time.perf_counter()
    terminal.send(key)
    seen = b""
    while key.encode() not in seen and time.perf_counter() - began_s < timeout_s:
        seen += terminal.read(timeout_s)
    return time.perf_counter() - began_s


def _read_for(terminal: Terminal, duration_s: float) -> None:
    end_s = time.perf_counter() + duration_s
    while (left_s := end_s - time.perf_counter()) > 0:
        terminal.read(left_s)


def measure_scrolling(wanted: Wanted) -> Report:
    """Measure a chat of many turns: opened, paged up to its beginning, down again, and jumps to both ends."""
    with _stay(wanted) as stay:
        export = stay.home / "chat.json"
        write_chat(export, wanted.turns)
        subprocess.run(
            [sys.executable, "-m", "appliance", "chats", "import", str(export)],
            cwd=wanted.source,
            env={**os.environ, **stay.environment()},
            check=True,
            capture_output=True,
        )
        terminal = stay.run([sys.executable, "-m", "appliance"])
        try:
            return _scroll(terminal, wanted)
        finally:
            terminal.close()


def _scroll(terminal: Terminal, wanted: Wanted) -> Report:
    terminal.wait_for("ready")
    terminal.settle()
    terminal.send("\x1bOQ")
    terminal.wait_for("A chat of many turns")
    terminal.settle()
    opened_s = _jump(terminal, "\r", LAST_WORDS)
    terminal.settle()
    to_beginning_s = _jump(terminal, _CTRL_HOME, "Question 1:")
    is_at_beginning = b"Question 1:" in terminal.written
    terminal.settle()
    to_end_s = _jump(terminal, _CTRL_END, LAST_WORDS)
    terminal.settle()
    up = _until_quiet(terminal, _PAGE_UP, most=_PAGES)
    down = _until_quiet(terminal, _PAGE_DOWN, most=_PAGES)
    return {
        "turns": wanted.turns,
        "open_ms": round(opened_s * 1000, 1),
        "jump_to_beginning_ms": round(to_beginning_s * 1000, 1),
        "jump_reaches_beginning": float(is_at_beginning),
        "jump_to_end_ms": round(to_end_s * 1000, 1),
        "page_up_ms": percentiles([burst.last_s * 1000 for burst in up]),
        "page_up_cpu_ms": percentiles([burst.cpu_s * 1000 for burst in up]),
        "page_ups": len(up),
        "page_down_ms": percentiles([burst.last_s * 1000 for burst in down]),
        "page_down_cpu_ms": percentiles([burst.cpu_s * 1000 for burst in down]),
    }


def _jump(terminal: Terminal, key: str, text: str) -> float:
    """Press a key; return how long it took until a text was there."""
    terminal.forget()
    began_s = time.perf_counter()
    terminal.send(key)
    _read_until(terminal, text, timeout_s=5.0)
    return time.perf_counter() - began_s


def _read_until(terminal: Terminal, text: str, timeout_s: float) -> None:
    end_s = time.perf_counter() + timeout_s
    while text.encode() not in terminal.written and time.perf_counter() < end_s:
        terminal.read(0.05)


def _until_quiet(terminal: Terminal, key: str, *, most: int) -> list[Burst]:
    bursts: list[Burst] = []
    for _ in range(most):
        burst = terminal.burst(key, timeout_s=2.0)
        if burst is None:
            break
        if burst.written_bytes >= _BLINK_BYTES:
            bursts.append(burst)
    return bursts


def percentiles(values: Sequence[float]) -> Figures:
    """Return the median, p95, p99 and the largest of some figures."""
    ordered = sorted(values)
    if not ordered:
        return {}
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)
        for name, share in shares.items()
    }
