"""Compiles llama.cpp's own programs from the source that llama-cpp-python vendors, with the engine's flags, cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TextIO

from appliance.core.errors import EngineBuildError
from appliance.engine.build import MachineFacts
from appliance.engine.build_profiles import BuildProfile, choose_profiles, parse_backend
from appliance.engine.build_progress import BuildProgress
from appliance.engine.build_record import DISTRIBUTION, read_installed_build
from appliance.engine.build_wheel import WheelBuilder, find_compiler
from appliance.engine.processor import detect_processor

PROGRAMS = ("llama-bench", "llama-server", "llama-batched-bench", "llama-cli")

_ARGUMENTS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",  # it would be downloaded
)
_START_TIMEOUT_S = 60.0
_COMPILE_JOBS_VARIABLE = "CMAKE_BUILD_PARALLEL_LEVEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPrograms:
    """Compiled programs and the libraries they run on.

    With `shares_libraries` they load the very libraries the engine has loaded, so that both run identical kernels.
    """

    folder: Path
    library_folders: tuple[Path, ...]
    shares_libraries: bool
    flags: str

    def path(self, program: str) -> Path:
        """Where a program lies."""
        return self.folder / program

    def environment(self, openmp: Mapping[str, str]) -> dict[str, str]:
        """The environment to start a program in."""
        variable = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
        paths = os.pathsep.join(str(folder) for folder in self.library_folders)
        return {**os.environ, variable: paths, **openmp}


def ensure_programs(cache_dir: Path, say: Callable[[str], None], stream: TextIO) -> PeerPrograms:
    """Take the programs from the cache, or compile them.

    Raises:
        EngineBuildError: a compiler or a build tool is missing, or the build fails.
        StorageError: the disk is full.
    """
    facts = MachineFacts(
        processor=detect_processor(),
        compiler=find_compiler(os.environ),
        backend=parse_backend(os.environ),
        environment=os.environ,
    )
    profile = _engine_profile(facts)
    folder = cache_dir / "peers" / facts.key(profile)
    if not all((folder / program).is_file() for program in PROGRAMS):
        _compile(cache_dir / "peers", folder, profile, facts.key(profile), say, stream)
    return _choose_libraries(folder, profile)


def _engine_profile(facts: MachineFacts) -> BuildProfile:
    """The flags the installed engine was compiled with; the first choice for this machine where none is recorded."""
    profiles = choose_profiles(facts.processor, facts.compiler, facts.backend)
    installed = read_installed_build()
    name = installed.profile if installed else profiles[0].name
    return next((profile for profile in profiles if profile.name == name), profiles[0])


def _compile(
    cache: Path,
    folder: Path,
    profile: BuildProfile,
    key: str,
    say: Callable[[str], None],
    stream: TextIO,
) -> None:
    builder = WheelBuilder(
        work_folder=cache / "work", log_folder=cache / "logs", say=say, stream=stream, environment=os.environ
    )
    for needed in (builder.work_folder, builder.log_folder):
        needed.mkdir(parents=True, exist_ok=True)
    tools = builder.prepare_tools()
    source = builder.unpack_source(tools, builder.work_folder / key) / "vendor" / "llama.cpp"
    objects = builder.work_folder / key / "programs"
    environment = builder.compile_environment(tools, profile)
    environment.setdefault(_COMPILE_JOBS_VARIABLE, str(os.cpu_count() or 1))
    say(f"compiling {', '.join(PROGRAMS)} ({profile.name})")
    cmake = str(tools.with_name("cmake"))
    configure = [cmake, "-G", "Ninja", "-S", str(source), "-B", str(objects), *_ARGUMENTS]
    builder.run([*configure, *profile.cmake_arguments], f"{key}-configure", environment=environment)
    progress = BuildProgress(stream, label="compiling llama.cpp's programs")
    try:
        build = [cmake, "--build", str(objects), "--target", *PROGRAMS]
        builder.run(build, f"{key}-programs", progress=progress, environment=environment)
    finally:
        progress.close()
    _publish(objects / "bin", folder)
    builder.clean()


def _publish(built: Path, folder: Path) -> None:
    """Copy programs and libraries under the cache's name in one step."""
    draft = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(built, draft, symlinks=True)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def _choose_libraries(folder: Path, profile: BuildProfile) -> PeerPrograms:
    """Prefer the engine's own libraries; where a program cannot start with them, those of its own build."""
    flags = " ".join([*profile.cmake_arguments, profile.cxx_flags]).strip()
    shared = PeerPrograms(
        folder=folder, library_folders=(_engine_libraries(), folder), shares_libraries=True, flags=flags
    )
    if _can_start(shared):
        return shared
    own = PeerPrograms(folder=folder, library_folders=(folder,), shares_libraries=False, flags=flags)
    if _can_start(own):
        return own
    raise EngineBuildError(
        f"the programs in {folder} do not start", hint="delete that folder and run the command again"
    )


def _engine_libraries() -> Path:
    """The folder of the native libraries of the installed engine, without loading them."""
    return Path(str(metadata.distribution(DISTRIBUTION).locate_file("llama_cpp/lib")))


def _can_start(programs: PeerPrograms) -> bool:
    """Whether every program finds every symbol it needs; lazy binding would show a missing one only in use."""
    for program in PROGRAMS:
        try:
            done = subprocess.run(
                [programs.path(program), "--help"],
                env={**programs.environment({}), "LD_BIND_NOW": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_START_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        if b"undefined symbol" in done.stderr or b"cannot open shared object" in done.stderr:
            return False
    return True
