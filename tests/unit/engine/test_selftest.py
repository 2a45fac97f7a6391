"""How the end and the figures of a self-test are judged."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from appliance.core.errors import ModelFileError
from appliance.engine.selftest import RESULT_MARK, Measurement, judge, run_child, run_self_test

GOOD = Measurement(
    prompt_tokens=94,
    decoded_tokens=16,
    text=" Rome.",
    is_finite=True,
    is_deterministic=True,
    mean_surprise=2.5,
    agreement=0.995,
    prompt_tokens_per_s=400.0,
    decode_tokens_per_s=80.0,
    load_s=0.1,
    threads=2,
    system_info="AVX2 = 1",
    supports_gpu=False,
    library_version="0.3.36",
)


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def dies_by(signal: str) -> list[str]:
    return python(f"import os, signal; os.kill(os.getpid(), signal.{signal})")


def test_a_measurement_within_every_bound_passes() -> None:
    verdict, reason = judge(GOOD)

    assert verdict == "passed"
    assert reason == "evaluated 94 tokens and decoded 16 with 2 threads"


@pytest.mark.parametrize(
    "measured,words",
    [
        (replace(GOOD, is_finite=False), "not finite"),
        (replace(GOOD, mean_surprise=10.8), "nonsense"),
        (replace(GOOD, mean_surprise=1e9), "nonsense"),
        (replace(GOOD, agreement=0.2), "contradicts"),
        (replace(GOOD, is_deterministic=False), "two different answers"),
    ],
)
def test_wrong_figures_are_a_fault_of_the_build(measured: Measurement, words: str) -> None:
    verdict, reason = judge(measured)

    assert verdict == "build_fault"
    assert words in reason


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGILL", "SIGBUS", "SIGABRT", "SIGFPE"])
def test_death_by_a_fault_signal_is_a_fault_of_the_build(signal: str) -> None:
    report = run_child(dies_by(signal), timeout_s=30)

    assert report.verdict == "build_fault"
    assert report.reason == f"crashed on its first prompt ({signal})"


def test_being_killed_says_nothing_of_the_build() -> None:
    report = run_child(dies_by("SIGKILL"), timeout_s=30)

    assert report.verdict == "inconclusive"
    assert "SIGKILL" in report.reason
    assert "memory" in report.reason


def test_a_child_that_hangs_is_stopped_at_the_limit() -> None:
    report = run_child(python("import threading; threading.Event().wait()"), timeout_s=0.5)

    assert report.verdict == "inconclusive"
    assert report.reason == "gave no answer within 0.5 s"


def test_an_error_of_the_child_is_quoted() -> None:
    report = run_child(python("raise SystemExit('libgomp.so.1: cannot open')"), timeout_s=30)

    assert report.verdict == "inconclusive"
    assert report.reason == "ended with exit code 1: libgomp.so.1: cannot open"


def test_a_child_that_ends_well_but_measured_nothing_does_not_pass() -> None:
    report = run_child(python("print('all is well')"), timeout_s=30)

    assert not report.has_passed


def test_the_figures_of_the_child_are_judged_and_kept() -> None:
    line = f"{RESULT_MARK}{json.dumps(asdict(GOOD))}"

    report = run_child(python(f"print({line!r})"), timeout_s=30)

    assert report.has_passed
    assert report.measurement == GOOD


def test_wrong_figures_of_a_child_that_ended_well_do_not_pass() -> None:
    line = f"{RESULT_MARK}{json.dumps(asdict(replace(GOOD, mean_surprise=11.0)))}"

    report = run_child(python(f"print({line!r})"), timeout_s=30)

    assert report.verdict == "build_fault"


def test_missing_weights_are_said_before_any_child_starts(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no weights at"):
        run_self_test(tmp_path / "absent.gguf", python="/does/not/exist")
