"""Rows of `appliance doctor`: each wrong thing is seen, and comes with a way out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.cli.doctor_rows import (
    EngineFacts,
    Row,
    engine_rows,
    gpu_rows,
    level,
    model_rows,
    path_rows,
    processor_rows,
    settings_rows,
)
from appliance.config import Settings, load_settings
from appliance.engine.build_record import InstalledBuild
from appliance.engine.gpus import Gpu
from appliance.engine.processor import Processor
from appliance.engine.selftest import Measurement, SelfTestReport

PROCESSOR = Processor(
    system="linux",
    architecture="x86_64",
    name="A processor",
    features=frozenset({"avx2", "amx_tile"}),
    physical_cores=4,
)
BUILD = InstalledBuild(
    version="0.3.36",
    backend="cpu",
    profile="native-amx",
    description="every feature",
    key="k",
    flags="",
    compiler="c++ 12",
    processor="A processor",
    features=("amx_tile", "avx2"),
    files_digest="d",
    self_test="",
)
MEASUREMENT = Measurement(
    prompt_tokens=94,
    decoded_tokens=16,
    text=" Rome.",
    is_finite=True,
    is_deterministic=True,
    mean_surprise=2.5,
    agreement=0.995,
    prompt_tokens_per_s=401.2,
    decode_tokens_per_s=80.4,
    load_s=0.1,
    threads=4,
    system_info="AVX2 = 1",
    supports_gpu=False,
    library_version="0.3.36",
)
REPORT = SelfTestReport(verdict="passed", reason="evaluated", elapsed_s=2.0, measurement=MEASUREMENT)
ENGINE = EngineFacts(
    installed_version="0.3.36", build=BUILD, self_test=REPORT, self_test_model="the starter model"
)
H200 = Gpu(
    name="NVIDIA H200", total_bytes=141 * 10**9, free_bytes=140 * 10**9, backend="cuda", found_by="nvml"
)


def settings_of(folder: Path, **environment: str) -> Settings:
    return load_settings(environ={"HOME": str(folder), **environment})


def by_name(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def test_a_proven_build_for_this_processor_is_well() -> None:
    rows = by_name(engine_rows(ENGINE, PROCESSOR))

    assert rows["build"].status == rows["self-test"].status == "ok"
    assert "'native-amx'" in rows["build"].value
    assert "prefill 401 and decode 80 tokens/s" in rows["self-test"].value
    assert rows["features"].value == "AVX2 = 1"


def test_a_missing_engine_fails_and_says_how_to_build_one() -> None:
    facts = replace(ENGINE, installed_version="", build=None, self_test=None, why_no_self_test="no engine")

    rows = by_name(engine_rows(facts, PROCESSOR))

    assert rows["build"].status == rows["self-test"].status == "fail"
    assert "appliance.engine.build" in rows["build"].remedy


def test_a_build_made_elsewhere_is_a_warning() -> None:
    rows = by_name(engine_rows(replace(ENGINE, build=None), PROCESSOR))

    assert rows["build"].status == "warn"
    assert "unknown flags" in rows["build"].value


def test_a_build_made_for_another_processor_is_a_warning() -> None:
    rows = by_name(engine_rows(ENGINE, replace(PROCESSOR, features=frozenset({"avx2"}))))

    assert rows["build"].status == "warn"
    assert "another processor" in rows["build"].value


def test_a_crash_in_the_self_test_fails_and_asks_for_another_build() -> None:
    crashed = SelfTestReport(
        verdict="build_fault", reason="crashed on its first prompt (SIGSEGV)", elapsed_s=1
    )

    rows = by_name(engine_rows(replace(ENGINE, self_test=crashed), PROCESSOR))

    assert rows["self-test"].status == "fail"
    assert "SIGSEGV" in rows["self-test"].value
    assert "appliance.engine.build" in rows["self-test"].remedy


def test_no_gpu_is_well_for_a_cpu_build_and_a_warning_for_a_gpu_build() -> None:
    (for_cpu,) = gpu_rows((), ENGINE)
    (for_cuda,) = gpu_rows((), replace(ENGINE, build=replace(BUILD, backend="cuda")))

    assert for_cpu.status == "ok"
    assert for_cuda.status == "warn"
    assert "driver" in for_cuda.remedy


def test_a_gpu_the_build_cannot_use_names_the_variable_and_that_it_is_untested() -> None:
    (row,) = gpu_rows((H200,), ENGINE)

    assert row.status == "warn"
    assert "NVIDIA H200, 140.0 GB free of 141.0 GB" in row.value
    assert "APPLIANCE_BACKEND=cuda" in row.remedy
    assert "untested" in row.remedy


def test_a_gpu_the_build_can_use_is_well() -> None:
    report = replace(REPORT, measurement=replace(MEASUREMENT, supports_gpu=True))

    (row,) = gpu_rows((H200,), replace(ENGINE, self_test=report))

    assert row.status == "ok"


def test_more_threads_than_cores_is_a_warning(tmp_path: Path) -> None:
    rows = by_name(processor_rows(PROCESSOR, settings_of(tmp_path, APPLIANCE_THREADS="9")))

    assert rows["threads"].status == "warn"
    assert rows["threads"].value.startswith("9 of 4 physical cores")
    assert "amx_tile" in rows["processor"].value


def test_threads_are_the_physical_cores_by_default(tmp_path: Path) -> None:
    rows = by_name(processor_rows(PROCESSOR, settings_of(tmp_path)))

    assert rows["threads"].status == "ok"
    assert rows["threads"].value.startswith("4 of 4 physical cores")


def test_a_misspelt_variable_is_a_warning(tmp_path: Path) -> None:
    rows = by_name(settings_rows(settings_of(tmp_path, APPLIANCE_THREDS="9")))

    assert rows["environment"].status == "warn"
    assert "APPLIANCE_THREADS" in rows["environment"].value


def test_the_variable_that_chooses_the_build_is_not_taken_for_a_misspelt_setting(tmp_path: Path) -> None:
    rows = by_name(settings_rows(settings_of(tmp_path, APPLIANCE_BACKEND="cuda")))

    assert "environment" not in rows


def test_a_folder_that_is_a_file_fails_and_names_the_variable(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")

    rows = by_name(path_rows(settings_of(tmp_path, APPLIANCE_MODELS=str(blocked))))

    assert rows["models"].status == "fail"
    assert "APPLIANCE_MODELS" in rows["models"].remedy
    assert rows["data"].status == "ok"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_fails(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)

    rows = by_name(path_rows(settings_of(tmp_path, APPLIANCE_MODELS=str(locked / "models"))))

    assert rows["models"].status == "fail"


def test_without_the_default_model_the_report_says_how_to_fetch_it(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    rows = by_name(model_rows(settings, is_verifying=False))

    assert rows[settings.model].status == "fail"
    assert rows[settings.model].remedy == f"`appliance pull {settings.model}`"


def test_amounts_are_graded_at_their_bounds() -> None:
    assert [level(amount, 20, 10) for amount in (9, 10, 19, 20)] == ["fail", "warn", "warn", "ok"]
