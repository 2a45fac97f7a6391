"""What goes wrong while the engine is compiled, caused by a compiler of our own making."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from appliance.core.errors import EngineBuildError, StorageError
from appliance.engine.build_profiles import BuildProfile
from appliance.engine.build_wheel import (
    BUILD_REQUIREMENTS,
    CompileFailedError,
    WheelBuilder,
    check_backend_tools,
    find_compiler,
)

PROFILE = BuildProfile(
    name="native",
    description="every feature",
    cmake_arguments=("-DGGML_NATIVE=ON",),
    c_flags="-mc",
    cxx_flags="-mcxx",
)
KEY = "1.0-cpu-native-abc"
MAKES_A_WHEEL = """
echo "  [1/2] c++ -c a.cpp"
echo "  [2/2] c++ -o lib.so"
mkdir -p {work}/1.0-cpu-native-abc/wheel
echo wheel > {work}/1.0-cpu-native-abc/wheel/llama_cpp_python-1.0-py3-none-any.whl
"""


class InterruptingStream(io.StringIO):
    """A terminal at which the user presses Ctrl+C when the first progress is shown."""

    has_interrupted = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not self.has_interrupted:
            self.has_interrupted = True
            raise KeyboardInterrupt
        return super().write(text)


def builder_that_runs(
    script: str,
    folder: Path,
    *,
    stream: io.StringIO | None = None,
    own_environment: Mapping[str, str] | None = None,
) -> WheelBuilder:
    """Build tools and sources that are there already, where pip is a shell script."""
    work = folder / "work"
    (work / KEY / "source").mkdir(parents=True)
    python = work / "tools" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/bash\nset -e\n{script.replace('{work}', str(work))}")
    python.chmod(0o755)
    (work / "tools" / "ready").write_text(hashlib.sha256(BUILD_REQUIREMENTS.read_bytes()).hexdigest())
    return WheelBuilder(
        work_folder=work,
        log_folder=folder / "logs",
        say=lambda _line: None,
        stream=stream or io.StringIO(),
        environment={"PATH": os.environ["PATH"], **(own_environment or {})},
    )


def test_a_build_gives_its_wheel_keeps_its_log_and_shows_progress(tmp_path: Path) -> None:
    stream = io.StringIO()

    wheel = builder_that_runs(MAKES_A_WHEEL, tmp_path, stream=stream).build(PROFILE, KEY)

    assert wheel.read_text() == "wheel\n"
    assert "[2/2] c++ -o lib.so" in (tmp_path / "logs" / f"{KEY}.log").read_text()
    assert "100%" in stream.getvalue()


def test_flags_of_the_profile_reach_the_compiler_and_the_users_own_come_after_them(tmp_path: Path) -> None:
    script = f"{MAKES_A_WHEEL}\nenv > {{work}}/environment"
    own = {"CXXFLAGS": "-O1", "CMAKE_ARGS": "-DGGML_NATIVE=OFF"}

    builder_that_runs(script, tmp_path, own_environment=own).build(PROFILE, KEY)

    seen = (tmp_path / "work" / "environment").read_text().splitlines()
    assert "CFLAGS=-mc" in seen
    assert "CXXFLAGS=-mcxx -O1" in seen
    assert "CMAKE_ARGS=-DGGML_NATIVE=ON -DGGML_NATIVE=OFF" in seen


def test_a_compiler_that_refuses_the_flags_condemns_only_this_profile(tmp_path: Path) -> None:
    script = 'echo "  [1/2] c++ -c a.cpp"; echo "a.cpp:1: error: unknown -mamx-tile"; exit 1'

    with pytest.raises(CompileFailedError, match="error: unknown -mamx-tile") as caught:
        builder_that_runs(script, tmp_path).build(PROFILE, KEY)

    assert str(tmp_path / "logs" / f"{KEY}.log") in caught.value.hint


def test_a_failure_before_the_first_compiler_call_is_not_blamed_on_the_flags(tmp_path: Path) -> None:
    script = 'echo "CMake Error: cannot find a generator"; exit 1'

    with pytest.raises(EngineBuildError, match="cannot find a generator") as caught:
        builder_that_runs(script, tmp_path).build(PROFILE, KEY)

    assert not isinstance(caught.value, CompileFailedError)
    assert "the whole log is" in caught.value.hint


def test_a_full_disk_is_said_as_such(tmp_path: Path) -> None:
    script = 'echo "  [1/2] c++"; echo "fatal error: a.o: No space left on device"; exit 1'

    with pytest.raises(StorageError, match="disk is full"):
        builder_that_runs(script, tmp_path).build(PROFILE, KEY)


def test_a_build_that_leaves_no_wheel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineBuildError, match="left 0 wheels"):
        builder_that_runs('echo "  [1/1] c++"', tmp_path).build(PROFILE, KEY)


def test_an_interrupt_ends_every_process_of_the_build_and_keeps_what_was_done(tmp_path: Path) -> None:
    script = """
    touch {work}/1.0-cpu-native-abc/object
    sleep 600 &
    echo $! > {work}/pid
    echo "  [1/2] c++"
    wait
    """
    builder = builder_that_runs(script, tmp_path, stream=InterruptingStream())

    with pytest.raises(KeyboardInterrupt):
        builder.build(PROFILE, KEY)

    assert not is_running(int((tmp_path / "work" / "pid").read_text()))
    assert (tmp_path / "work" / KEY / "object").exists()


def test_a_machine_without_a_compiler_is_told_how_to_get_one() -> None:
    with pytest.raises(EngineBuildError, match="/no/such/compiler") as caught:
        find_compiler({"CXX": "/no/such/compiler"})

    assert "build-essential" in caught.value.hint


@pytest.mark.skipif(sys.platform == "darwin", reason="Metal exists here")
def test_a_backend_that_does_not_exist_here_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(EngineBuildError, match="Metal exists on macOS only"):
        check_backend_tools("metal")


@pytest.mark.skipif(shutil.which("nvcc") is not None, reason="the CUDA compiler is here")
def test_a_backend_whose_compiler_is_missing_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(EngineBuildError, match="needs nvcc") as caught:
        check_backend_tools("cuda")

    assert "CUDA toolkit" in caught.value.hint


def is_running(pid: int) -> bool:
    """Say whether a process runs; one that ended and was not collected yet does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
