"""Installs an engine that is proven to work here: compiles with the fastest flags that pass the self-test.

`python -m appliance.engine.build` does nothing when this environment already has such a build. Otherwise it
takes the wheel from the cache or compiles it, installs it, and evaluates a prompt in a child process. Where
that dies or computes nonsense, it goes on to the next safer flags. Standard library only at import.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TextIO

from appliance.core.errors import ApplianceError, EngineBuildError
from appliance.engine.build_fallback import BuildOutcome, Say, install_first_working
from appliance.engine.build_profiles import (
    Backend,
    BuildProfile,
    Compiler,
    build_key,
    choose_profiles,
    parse_backend,
)
from appliance.engine.build_record import (
    CachedVerdict,
    InstalledBuild,
    forget_installed_build,
    installed_files_digest,
    read_installed_build,
    read_verdict,
    write_installed_build,
    write_verdict,
)
from appliance.engine.build_wheel import (
    VERSION,
    WheelBuilder,
    check_backend_tools,
    find_compiler,
)
from appliance.engine.processor import Processor, detect_processor
from appliance.engine.selftest import SelfTestReport, run_self_test

STARTER_MODEL = "smollm2:135m-instruct-q4_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What decides about a build."""

    processor: Processor
    compiler: Compiler
    backend: Backend
    environment: Mapping[str, str] = field(repr=False)

    def key(self, profile: BuildProfile) -> str:
        """Name of a profile's build in the cache."""
        return build_key(
            profile,
            version=VERSION,
            backend=self.backend,
            processor=self.processor,
            compiler=self.compiler,
            environment=self.environment,
            python_tag=f"cp{sys.version_info.major}{sys.version_info.minor}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSteps:
    """The steps on this machine: pip, the compiler, the cache folder, a child process."""

    facts: MachineFacts
    cache_folder: Path
    model_path: Path
    builder: WheelBuilder
    say: Say

    def known_fault(self, profile: BuildProfile) -> str:
        """Read the verdict beside the cached wheel."""
        verdict = read_verdict(self._folder(profile))
        return verdict.reason if verdict and verdict.is_fault else ""

    def provide_wheel(self, profile: BuildProfile) -> Path:
        """Take the wheel from the cache, or compile it into the cache."""
        if cached := self._cached_wheel(profile):
            self.say(f"taking the build {profile.name!r} from the cache")
            return cached
        with _locked(self.cache_folder / "build.lock", self.say):
            if cached := self._cached_wheel(profile):
                return cached
            self.say(f"compiling llama.cpp for {self.facts.processor.name}: {profile.description}")
            built = self.builder.build(profile, self.facts.key(profile))
            folder = self._folder(profile)
            folder.mkdir(parents=True, exist_ok=True)
            return built.replace(folder / built.name)

    def install(self, wheel: Path) -> None:
        """Install with pip, without a look at any index: its dependencies are locked and there already."""
        forget_installed_build()
        command = ["install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel)]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise EngineBuildError(f"pip cannot install {wheel.name}: {done.stderr.strip()[-600:]}")

    def self_test(self) -> SelfTestReport:
        """Evaluate a prompt with the starter model."""
        self.say("self-test: evaluating a prompt in a child process")
        return run_self_test(self.model_path)

    def remember(self, profile: BuildProfile, verdict: CachedVerdict) -> None:
        """Write the verdict beside the cached wheel."""
        write_verdict(self._folder(profile), verdict)

    def _folder(self, profile: BuildProfile) -> Path:
        return self.cache_folder / self.facts.key(profile)

    def _cached_wheel(self, profile: BuildProfile) -> Path | None:
        return next(iter(self._folder(profile).glob("*.whl")), None)


def ensure_engine(
    *, model_path: Path | None, environment: Mapping[str, str], say: Say, stream: TextIO, is_forced: bool
) -> None:
    """Leave a proven engine in this environment; return at once where there is one.

    Raises:
        ApplianceError: it cannot be built, or there are no weights to test it with.
    """
    backend, processor = parse_backend(environment), detect_processor()
    if not is_forced and _is_current(read_installed_build(), backend, processor):
        return
    check_backend_tools(backend)
    facts = MachineFacts(
        processor=processor, compiler=find_compiler(environment), backend=backend, environment=environment
    )
    steps = _real_steps(facts, model_path, say, stream)
    started_s = time.perf_counter()
    outcome = install_first_working(choose_profiles(processor, facts.compiler, backend), steps, say)
    _record(facts, outcome)
    steps.builder.clean()
    say(
        f"the engine works: build {outcome.profile.name!r}, {outcome.report.reason} "
        f"({time.perf_counter() - started_s:.0f} s)"
    )
    if backend != "cpu":
        say(f"note: the makers of this software could not test {backend} builds; see `appliance doctor`")


def _is_current(build: InstalledBuild | None, backend: Backend, processor: Processor) -> bool:
    if build is None:
        return False
    return (build.version, build.backend, frozenset(build.features)) == (
        VERSION,
        backend,
        processor.features,
    )


def _real_steps(facts: MachineFacts, model_path: Path | None, say: Say, stream: TextIO) -> RealSteps:
    from appliance.config import load_settings

    settings = load_settings(environ=facts.environment)
    folder = settings.cache_dir / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    builder = WheelBuilder(
        work_folder=folder / "work",
        log_folder=folder / "logs",
        say=say,
        stream=stream,
        environment=facts.environment,
    )
    weights = model_path or starter_weights(settings.models_dir)
    return RealSteps(facts=facts, cache_folder=folder, model_path=weights, builder=builder, say=say)


def starter_weights(models_dir: Path) -> Path:
    """Find the smallest model that every installation has.

    Raises:
        ModelNotFoundError: it was not fetched yet.
    """
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore

    return Catalog(ModelStore(models_dir)).local(STARTER_MODEL).path


def _record(facts: MachineFacts, outcome: BuildOutcome) -> None:
    profile = outcome.profile
    write_installed_build(
        InstalledBuild(
            version=VERSION,
            backend=facts.backend,
            profile=profile.name,
            description=profile.description,
            key=facts.key(profile),
            flags=shlex.join([*profile.cmake_arguments, *shlex.split(profile.cxx_flags)]),
            compiler=facts.compiler.version,
            processor=facts.processor.name,
            features=tuple(sorted(facts.processor.features)),
            files_digest=installed_files_digest(),
            self_test=outcome.report.reason,
        )
    )


@contextlib.contextmanager
def _locked(path: Path, say: Say) -> Iterator[None]:
    """Hold a lock that the system releases when this process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build on this machine")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """Run the installation and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m appliance.engine.build", description=__doc__)
    parser.add_argument("--model", type=Path, help="weights for the self-test; the starter model by default")
    parser.add_argument(
        "--force", action="store_true", help="install again even where a proven build is there"
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        ensure_engine(
            model_path=options.model,
            environment=os.environ,
            say=lambda line: print(line, flush=True),
            stream=sys.stdout,
            is_forced=options.force,
        )
    except ApplianceError as exc:
        print(f"error: {exc.message}", file=sys.stderr)
        if exc.hint:
            print(f"hint: {exc.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
