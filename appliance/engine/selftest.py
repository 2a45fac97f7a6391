"""Proves that the compiled engine works here: evaluates a prompt and decodes an answer in a child process.

A wrong build dies by a signal, or computes nonsense. So the child's end is judged first, then the numbers:
every logit is finite, plain English does not surprise the model, one token at a time agrees with the whole
batch, and the same prompt gives the same answer twice. Standard library only at import.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from appliance.core.errors import ApplianceError, ModelFileError

DEFAULT_TIMEOUT_S = 180.0
RESULT_MARK = "appliance-self-test:"

# Nats a token: trained models read plain English at 2 to 4; broken arithmetic gives ln(vocabulary), over 10.
MAX_MEAN_SURPRISE = 7.0
# Cosine of two rows of logits; other kernels serve batches than single tokens, which costs 0.005 at most.
MIN_AGREEMENT = 0.95

# ggml attaches a debugger when it aborts; and threads that spin at barriers make a busy machine crawl.
_QUIET_ENVIRONMENT = {"GGML_NO_BACKTRACE": "1", "OMP_WAIT_POLICY": "passive"}
_LAST_LINES = 5
# What a fault of the build looks like; SIGKILL and SIGTERM come from outside, mostly for want of memory.
_FAULT_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGTRAP}
)

Verdict = Literal["passed", "build_fault", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What the child computed and how fast."""

    prompt_tokens: int
    decoded_tokens: int
    text: str
    is_finite: bool
    is_deterministic: bool
    mean_surprise: float
    agreement: float
    prompt_tokens_per_s: float
    decode_tokens_per_s: float
    load_s: float
    threads: int
    system_info: str
    supports_gpu: bool
    library_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestReport:
    """The verdict, the reason in words, and the measurement where there is one."""

    verdict: Verdict
    reason: str
    elapsed_s: float
    measurement: Measurement | None = None

    @property
    def has_passed(self) -> bool:
        """Whether the build can be trusted."""
        return self.verdict == "passed"

    def to_json(self) -> str:
        """Write the report as one JSON object."""
        return json.dumps(asdict(self))


def run_self_test(
    model_path: Path, *, timeout_s: float = DEFAULT_TIMEOUT_S, threads: int = 0, python: str = sys.executable
) -> SelfTestReport:
    """Evaluate a prompt in a child process and judge it.

    Raises:
        ModelFileError: there is no weights file at the path.
    """
    if not model_path.is_file():
        raise ModelFileError(f"there are no weights at {model_path}", hint="fetch them: `appliance pull`")
    module = "appliance.engine.selftest_measurement"
    return run_child([python, "-m", module, str(model_path), str(threads)], timeout_s=timeout_s)


def run_child(command: list[str], *, timeout_s: float) -> SelfTestReport:
    """Run the command that measures, and turn how it ended into a verdict."""
    started_s = time.perf_counter()
    environment = {**_QUIET_ENVIRONMENT, **os.environ}
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"gave no answer within {timeout_s:g} s"
        return SelfTestReport(verdict="inconclusive", reason=reason, elapsed_s=timeout_s)
    elapsed_s = time.perf_counter() - started_s
    verdict, reason, measurement = _judge_end(child)
    return SelfTestReport(verdict=verdict, reason=reason, elapsed_s=elapsed_s, measurement=measurement)


def judge(measurement: Measurement) -> tuple[Verdict, str]:
    """Tell whether the numbers are those of a working build."""
    if not measurement.is_finite:
        return "build_fault", "computed logits that are not finite numbers"
    if measurement.mean_surprise > MAX_MEAN_SURPRISE:
        return "build_fault", (
            f"computed nonsense: plain English surprises the model by {measurement.mean_surprise:.1f} nats a "
            f"token, at most {MAX_MEAN_SURPRISE:g} is plausible"
        )
    if measurement.agreement < MIN_AGREEMENT:
        return "build_fault", (
            f"computed one token at a time what the whole batch contradicts (agreement "
            f"{measurement.agreement:.3f}, at least {MIN_AGREEMENT:g} is plausible)"
        )
    if not measurement.is_deterministic:
        return "build_fault", "gave two different answers to the same prompt"
    return "passed", (
        f"evaluated {measurement.prompt_tokens} tokens and decoded {measurement.decoded_tokens} "
        f"with {measurement.threads} threads"
    )


def signal_name(number: int) -> str:
    """Name a signal, also one this platform does not know."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _judge_end(child: subprocess.CompletedProcess[str]) -> tuple[Verdict, str, Measurement | None]:
    if child.returncode < 0:
        number = -child.returncode
        is_fault = number in _FAULT_SIGNALS
        cause = "" if is_fault else "; something else ended it, often for want of memory"
        verdict: Verdict = "build_fault" if is_fault else "inconclusive"
        return verdict, f"crashed on its first prompt ({signal_name(number)}){cause}", None
    measurement = _find_measurement(child.stdout)
    if child.returncode != 0 or measurement is None:
        return "inconclusive", _last_words(child), None
    return (*judge(measurement), measurement)


def _find_measurement(output: str) -> Measurement | None:
    for line in reversed(output.splitlines()):
        if line.startswith(RESULT_MARK):
            values = json.loads(line.removeprefix(RESULT_MARK))
            return Measurement(**{field.name: values[field.name] for field in fields(Measurement)})
    return None


def _last_words(child: subprocess.CompletedProcess[str]) -> str:
    words = " / ".join(child.stderr.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"
    return f"ended with exit code {child.returncode}: {words}"


def main(arguments: list[str] | None = None) -> int:
    """Run `python -m appliance.engine.selftest MODEL`; exit code 0 only where the build passed."""
    parser = argparse.ArgumentParser(prog="python -m appliance.engine.selftest", description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--threads", type=int, default=0, help="0 is one per physical core")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS")
    options = parser.parse_args(arguments)
    try:
        report = run_self_test(options.model, timeout_s=options.timeout, threads=options.threads)
    except ApplianceError as exc:
        print(f"error: {exc.message}", file=sys.stderr)
        return 1
    print(report.to_json() if options.json else f"self-test {report.verdict}: {report.reason}")
    return 0 if report.has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
