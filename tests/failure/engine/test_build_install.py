"""Installing an engine whose builds crash, with real pip, real child processes and real signals.

Nothing is compiled: wheels that crash when used, and one made of the engine installed here, lie in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from appliance.engine.build import MachineFacts
from appliance.engine.build_profiles import BuildProfile, choose_profiles
from appliance.engine.build_record import DISTRIBUTION
from appliance.engine.build_wheel import VERSION, find_compiler
from appliance.engine.processor import detect_processor

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
WHEEL_NAME = f"llama_cpp_python-{VERSION}-py3-none-any.whl"
DIST_INFO = f"llama_cpp_python-{VERSION}.dist-info"
CRASHES = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A clean environment with a cache of its own."""

    python: Path
    environment: dict[str, str]
    facts: MachineFacts

    def profiles(self) -> tuple[BuildProfile, ...]:
        return choose_profiles(self.facts.processor, self.facts.compiler, self.facts.backend)

    def cache(self, profile: BuildProfile) -> Path:
        folder = Path(self.environment["XDG_CACHE_HOME"]) / "appliance" / "engine" / self.facts.key(profile)
        folder.mkdir(parents=True)
        return folder / WHEEL_NAME

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-m", *arguments],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.python.parent,
            check=False,
            timeout=300,
        )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True)
    (packages,) = (tmp_path / "v" / "lib").glob("python*/site-packages")
    (packages / "paths.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "APPLIANCE_MODELS": os.environ["APPLIANCE_MODELS"],
    }
    facts = MachineFacts(
        processor=detect_processor(),
        compiler=find_compiler(environment),
        backend="cpu",
        environment=environment,
    )
    return Installation(python=tmp_path / "v" / "bin" / "python", environment=environment, facts=facts)


def write_wheel(path: Path, files: dict[str, bytes]) -> None:
    listing = "".join(f"{name},,\n" for name in [*files, f"{DIST_INFO}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, f"{DIST_INFO}/RECORD": listing.encode()}.items():
            archive.writestr(name, content)


def write_crashing_wheel(path: Path) -> None:
    facts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {VERSION}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files = {f"{DIST_INFO}/{name}": content.encode() for name, content in facts.items()}
    write_wheel(path, {"llama_cpp/__init__.py": CRASHES.encode(), **files})


def write_wheel_of_installed_engine(path: Path) -> None:
    listed = metadata.distribution(DISTRIBUTION).files or []
    kept = [
        file
        for file in listed
        if file.parts[0] in ("llama_cpp", DIST_INFO) and file.suffix != ".pyc" and file.name != "RECORD"
    ]
    write_wheel(path, {str(file): file.read_binary() for file in kept})


def test_a_build_that_dies_by_a_signal_is_replaced_by_the_next_and_doctor_knows_it(
    installation: Installation, starter_weights: Path
) -> None:
    crashing, working, *_ = installation.profiles()
    write_crashing_wheel(installation.cache(crashing))
    write_wheel_of_installed_engine(installation.cache(working))

    first = installation.run("appliance.engine.build", "--model", str(starter_weights))
    again = installation.run("appliance.engine.build", "--model", str(starter_weights))
    doctor = installation.run("appliance", "doctor")

    assert first.returncode == 0, first.stderr
    assert (
        f"the build {crashing.name!r} crashed on its first prompt (SIGSEGV); "
        f"rebuilding with {working.name!r}: {working.description}"
    ) in first.stdout
    assert f"the engine works: build {working.name!r}" in first.stdout
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert f"cpu build {working.name!r}" in doctor.stdout


def test_when_every_build_dies_each_is_named_and_none_is_tried_twice(
    installation: Installation, tmp_path: Path
) -> None:
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"GGUF")
    for profile in installation.profiles():
        write_crashing_wheel(installation.cache(profile))

    first = installation.run("appliance.engine.build", "--model", str(weights))
    again = installation.run("appliance.engine.build", "--model", str(weights))

    assert first.returncode == again.returncode == 1
    assert first.stdout.count("self-test:") == len(installation.profiles())
    assert all(f"{profile.name} crashed" in first.stderr for profile in installation.profiles())
    assert "hint:" in first.stderr
    assert again.stdout.count("self-test:") == 0
    assert again.stdout.count("found by an earlier installation") == len(installation.profiles())
