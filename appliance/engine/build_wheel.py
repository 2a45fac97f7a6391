"""Compiles llama-cpp-python into a wheel for this machine and keeps it in the cache. Standard library only.

The source and every build tool are pinned by sha256 and fetched by pip with the user's own configuration. An
interrupted build goes on where it stopped: sources and objects stay in the work folder until a build passed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from appliance.core.errors import EngineBuildError, StorageError
from appliance.engine.build_profiles import Backend, BuildProfile, Compiler, identify_compiler
from appliance.engine.build_progress import BuildProgress

VERSION = "0.3.36"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
SDIST_NAME = f"llama_cpp_python-{VERSION}.tar.gz"
BUILD_REQUIREMENTS = Path(__file__).with_name("build-requirements.txt")

_FREE_BYTES_NEEDED = 10**9
_LAST_LINES = 12
_GENTLE_END_S = 5.0
_POLL_S = 0.02
_VERSION_TIMEOUT_S = 20.0
_COMPILERS = ("c++", "g++", "clang++")
_BACKEND_TOOLS: Mapping[Backend, tuple[str, str]] = {
    "cpu": ("", ""),
    "cuda": ("nvcc", "install the CUDA toolkit and put its bin folder on PATH"),
    "metal": ("", ""),
    "vulkan": ("glslc", "install the Vulkan SDK; Debian and Ubuntu: apt install libvulkan-dev glslc"),
}


class CompileFailedError(EngineBuildError):
    """The compiler refused the flags of one profile; another profile may compile."""


def find_compiler(environment: Mapping[str, str]) -> Compiler:
    """Find the C++ compiler as CMake would: `CXX`, then the usual names.

    Raises:
        EngineBuildError: there is none.
    """
    stated = environment.get("CXX", "").strip()
    for command in [stated] if stated else _COMPILERS:
        output = _version_output([*shlex.split(command), "--version"])
        if output:
            return identify_compiler(command, output)
    raise EngineBuildError(
        f"there is no C++ compiler: CXX names {stated!r}, which does not run" if stated else _NO_COMPILER,
        hint=_COMPILER_HINT,
    )


_NO_COMPILER = "there is no C++ compiler on this machine"
_COMPILER_HINT = (
    "install one, then run the same command again. Debian and Ubuntu: apt install build-essential; "
    "Fedora: dnf install gcc gcc-c++ make; macOS: xcode-select --install"
)


def check_backend_tools(backend: Backend) -> None:
    """Refuse early what would fail in the middle of a build.

    Raises:
        EngineBuildError: the backend's compiler is missing, or the backend does not exist on this system.
    """
    tool, hint = _BACKEND_TOOLS[backend]
    if tool and shutil.which(tool) is None:
        raise EngineBuildError(f"a {backend} build needs {tool}, which is not on PATH", hint=hint)
    if backend == "metal" and sys.platform != "darwin":
        raise EngineBuildError("Metal exists on macOS only", hint="choose another APPLIANCE_BACKEND")


def _version_output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelBuilder:
    """Builds wheels below one cache folder. `log_folder` keeps the whole output of every build."""

    work_folder: Path
    log_folder: Path
    say: Callable[[str], None]
    stream: TextIO
    environment: Mapping[str, str]

    def build(self, profile: BuildProfile, key: str) -> Path:
        """Compile one profile; return the finished wheel in the work folder.

        Raises:
            CompileFailedError: the compiler failed with these flags.
            EngineBuildError: tools or sources cannot be had.
            StorageError: there is no room.
        """
        self._check_room()
        tools = self.prepare_tools()
        source = self.unpack_source(tools, self.work_folder / key)
        return self._compile(tools, source, profile, key)

    def clean(self) -> None:
        """Remove sources, objects and build tools."""
        shutil.rmtree(self.work_folder, ignore_errors=True)

    def _check_room(self) -> None:
        self.work_folder.mkdir(parents=True, exist_ok=True)
        self.log_folder.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(self.work_folder).free
        if free_bytes < _FREE_BYTES_NEEDED:
            raise StorageError(
                f"compiling needs {_FREE_BYTES_NEEDED / 1e9:.0f} GB below {self.work_folder}, "
                f"{free_bytes / 1e9:.1f} GB are free",
                hint="make room, or set XDG_CACHE_HOME to a folder on another disk",
            )

    def prepare_tools(self) -> Path:
        """An environment with the locked build tools; returns its Python."""
        wanted = hashlib.sha256(BUILD_REQUIREMENTS.read_bytes()).hexdigest()
        folder = self.work_folder / "tools"
        python, stamp = folder / "bin" / "python", folder / "ready"
        if stamp.is_file() and stamp.read_text() == wanted and python.exists():
            return python
        self.say("fetching build tools (cmake, ninja)")
        self.run([sys.executable, "-m", "venv", "--clear", str(folder)], "build-tools")
        install = ["install", "--no-deps", "--require-hashes", "-r", str(BUILD_REQUIREMENTS)]
        self.run([str(python), "-m", "pip", *_PIP, *install], "build-tools")
        stamp.write_text(wanted)
        return python

    def _sdist(self, tools: Path) -> Path:
        target = self.work_folder / SDIST_NAME
        if target.is_file() and _sha256(target) == SDIST_SHA256:
            return target
        self.say(f"fetching the source of llama-cpp-python {VERSION} (77 MB)")
        folder = self.work_folder / "download"
        folder.mkdir(parents=True, exist_ok=True)
        wanted = folder / "source.txt"
        wanted.write_text(f"llama-cpp-python=={VERSION} --hash=sha256:{SDIST_SHA256}\n")
        options = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--require-hashes"]
        command = ["download", *options, "-r", str(wanted), "--dest", str(folder)]
        self.run([str(tools), "-m", "pip", *_PIP, *command], "source")
        fetched = folder / SDIST_NAME
        if _sha256(fetched) != SDIST_SHA256:
            raise EngineBuildError(f"{SDIST_NAME} is not the file that was pinned", hint="fetch it again")
        fetched.replace(target)
        return target

    def unpack_source(self, tools: Path, folder: Path) -> Path:
        """Unpack the source for one build alone: an in-tree build leaves its libraries in it."""
        source = folder / "source"
        if source.is_dir():
            return source
        draft = folder / "unpacking"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        with tarfile.open(self._sdist(tools)) as archive:
            archive.extractall(draft, filter="data")
        (draft / SDIST_NAME.removesuffix(".tar.gz")).rename(source)
        draft.rmdir()
        return source

    def _compile(self, tools: Path, source: Path, profile: BuildProfile, key: str) -> Path:
        output = self.work_folder / key / "wheel"
        shutil.rmtree(output, ignore_errors=True)
        options = ["--verbose", "--no-deps", "--no-build-isolation", "--wheel-dir", str(output)]
        build_folder = f"build-dir={self.work_folder / key / 'objects'}"
        command = [str(tools), "-m", "pip", *_PIP, "wheel", *options, "-C", build_folder, str(source)]
        progress = BuildProgress(self.stream, label=f"compiling llama.cpp ({profile.name})")
        try:
            self.run(command, key, progress=progress, environment=self.compile_environment(tools, profile))
        finally:
            progress.close()
        wheels = list(output.glob("llama_cpp_python-*.whl"))
        if len(wheels) != 1:
            raise EngineBuildError(f"the build left {len(wheels)} wheels in {output}")
        return wheels[0]

    def compile_environment(self, tools: Path, profile: BuildProfile) -> dict[str, str]:
        """The user's own flags come last, where they win."""
        own = self.environment
        return {
            **own,
            "PATH": os.pathsep.join([str(tools.parent), own.get("PATH", os.defpath)]),
            "CMAKE_ARGS": " ".join([*profile.cmake_arguments, own.get("CMAKE_ARGS", "")]).strip(),
            "CFLAGS": f"{profile.c_flags} {own.get('CFLAGS', '')}".strip(),
            "CXXFLAGS": f"{profile.cxx_flags} {own.get('CXXFLAGS', '')}".strip(),
        }

    def run(
        self,
        command: Sequence[str],
        name: str,
        *,
        progress: BuildProgress | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command to its end, its output in a log; no process of it outlives an interrupt."""
        log_path = self.log_folder / f"{name}.log"
        with (
            log_path.open("w", buffering=1, encoding="utf-8") as log,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=dict(environment or self.environment),
                start_new_session=True,
            ) as process,
        ):
            tail = self._follow(process, log, progress)
        if process.returncode != 0:
            raise _failure(tail, log_path, process.returncode, progress)

    def _follow(
        self, process: subprocess.Popen[str], log: TextIO, progress: BuildProgress | None
    ) -> list[str]:
        tail: list[str] = []
        assert process.stdout
        try:
            for line in process.stdout:
                log.write(line)
                tail = [*tail[-_LAST_LINES + 1 :], line.rstrip()]
                if progress:
                    progress.feed(line)
            process.wait()
        finally:
            if process.poll() is None:
                _end_group(process)
        return tail


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a process and all it started: gently first, by force after some seconds."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GENTLE_END_S)
        for _ in range(round(_GENTLE_END_S / _POLL_S)):
            os.killpg(process.pid, 0)
            time.sleep(_POLL_S)
        os.killpg(process.pid, signal.SIGKILL)


_PIP = ("--no-input", "--disable-pip-version-check")


def _failure(
    tail: list[str], log_path: Path, returncode: int, progress: BuildProgress | None
) -> EngineBuildError | StorageError:
    text = log_path.read_text(encoding="utf-8", errors="replace")
    if "No space left on device" in text:
        return StorageError("the disk is full", hint=f"make room and run again; the log is {log_path}")
    if progress and progress.has_started:
        error = next((line.strip() for line in text.splitlines() if "error:" in line), "the compiler failed")
        return CompileFailedError(f"did not compile: {error}", hint=f"the whole log is {log_path}")
    last_words = "\n  ".join(line for line in tail if line.strip())
    return EngineBuildError(
        f"a build step ended with exit code {returncode}:\n  {last_words}",
        hint=f"the whole log is {log_path}; a failed download is tried again when you run the command again",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
