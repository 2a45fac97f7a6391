"""Runs llama-bench and reads its figures."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import ApplianceError
from benchmarks.peers.programs import PeerPrograms


class PeerFailedError(ApplianceError):
    """A program that the engine is compared with failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """One repetition of one test: its rate by the program's own clock, and the CPU seconds of the whole process."""

    tokens_per_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaBench:
    """llama-bench on one model."""

    programs: PeerPrograms
    model_path: Path
    threads: int
    openmp: Mapping[str, str]
    timeout_s: float = 300.0

    def prompt(self, tokens: int) -> BenchRun:
        """Process a prompt: `pp512` for 512 tokens."""
        return self._run(prompt_tokens=tokens, generated_tokens=0, depth_tokens=0)

    def generate(self, tokens: int, *, depth_tokens: int = 0) -> BenchRun:
        """Generate behind a context of so many tokens: `tg128 @ d64` for 128 behind 64."""
        return self._run(prompt_tokens=0, generated_tokens=tokens, depth_tokens=depth_tokens)

    def _run(self, *, prompt_tokens: int, generated_tokens: int, depth_tokens: int) -> BenchRun:
        cpu_before_s = _children_cpu_s()
        options = {
            "-m": str(self.model_path),
            "-p": str(prompt_tokens),
            "-n": str(generated_tokens),
            "-d": str(depth_tokens),
            "-t": str(self.threads),
            "-r": "1",
            "-o": "json",
        }
        command = [str(self.programs.path("llama-bench"))]
        for name, value in options.items():
            command += [name, value]
        try:
            done = subprocess.run(
                command,
                env=self.programs.environment(self.openmp),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise PeerFailedError(f"llama-bench did not end within {self.timeout_s:g} s") from exc
        if done.returncode != 0:
            last_words = done.stderr.decode(errors="replace").strip()[-400:]
            raise PeerFailedError(f"llama-bench ended with exit code {done.returncode}: {last_words}")
        return BenchRun(tokens_per_s=parse_rate(done.stdout), cpu_s=_children_cpu_s() - cpu_before_s)


def parse_rate(output: bytes) -> float:
    """Read the tokens a second of the one test in llama-bench's JSON.

    Raises:
        PeerFailedError: it is not that.
    """
    try:
        (test,) = json.loads(output)
        (rate,) = test["samples_ts"]
        return float(rate)
    except (ValueError, KeyError, TypeError) as exc:
        raise PeerFailedError(f"llama-bench wrote something unexpected: {output[:200]!r}") from exc


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
