"""The built wheel holds what it should, and works in an environment that has nothing of the source."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PACKAGES = {"appliance", "models", "tui", "benchmarks"}
WEIGHTS = (".gguf", ".safetensors", ".onnx", ".bin")


def run(command: list[str], *, folder: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a look at any index."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], folder=folder)
    (built,) = folder.glob("appliance-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel; of this one it sees the dependencies alone, no editable install.

    A plain path in a `.pth` file is put on `sys.path` without the `.pth` files of that folder being read.
    """
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", str(folder / "v")], folder=folder)
    python = folder / "v" / "bin" / "python"
    install = ["install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    run([str(python), "-m", "pip", *install], folder=folder)
    (packages,) = (folder / "v" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def test_the_wheel_has_the_four_packages_their_data_and_no_weights(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    top_level = {name.partition("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == PACKAGES
    assert [name for name in names if name.endswith(WEIGHTS)] == []
    assert "appliance/engine/build-requirements.txt" in names
    assert any(name.startswith("models/cards/") and name.endswith(".toml") for name in names)


def test_the_wheel_has_every_module_and_data_file_that_git_tracks(wheel: Path) -> None:
    listing = run(["git", "-C", str(ROOT), "ls-files", *PACKAGES], folder=wheel.parent)

    assert set(listing.splitlines()) <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_states_licence_python_and_one_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (folder,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    metadata = archive.read(f"{folder}/METADATA").decode()

    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert archive.read(f"{folder}/entry_points.txt").decode().split() == [
        "[console_scripts]",
        "appliance",
        "=",
        "appliance.cli:main",
    ]


def test_the_command_of_the_wheel_works_in_a_clean_environment(python: Path) -> None:
    command = str(python.with_name("appliance"))
    where = run([str(python), "-c", "import appliance; print(appliance.__file__)"], folder=python.parent)

    assert Path(where).is_relative_to(python.parents[1])
    assert run([command, "--version"], folder=python.parent).startswith("appliance ")
    assert "doctor" in run([command, "--help"], folder=python.parent)
    assert "models_dir" in run([command, "config"], folder=python.parent)


def test_the_wheel_finds_its_cards_without_the_source(python: Path) -> None:
    program = "from appliance.catalog.cards import load_cards; print(*sorted(load_cards()))"

    assert "smollm2:135m-instruct-q4_1" in run([str(python), "-c", program], folder=python.parent).split()
