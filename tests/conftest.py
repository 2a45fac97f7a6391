"""What every test may rely on: no settings of this user, weights from the model store, and shared data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from hypothesis import settings

from appliance.config import load_settings
from appliance.core.clock import VirtualClock
from appliance.core.errors import ApplianceError

if TYPE_CHECKING:
    from appliance.engine.client import Engine

REPOSITORY = Path(__file__).resolve().parent.parent
STARTER = "smollm2:135m-instruct-q4_1"
EMBEDDER = "all-minilm:l6-v2"
GEMMA = "gemma3:270m-q4_k_m"

MODELS_DIR = load_settings().models_dir

# Every run draws the same examples, however busy the machine is.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")

# A test run started in the background of a shell ignores Ctrl+C, and so would the programs the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def _isolated_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing of this user is read or written but the model store."""
    for variable in [name for name in os.environ if name.startswith("APPLIANCE_")]:
        monkeypatch.delenv(variable)
    home = tmp_path_factory.mktemp("xdg")
    for kind in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
        monkeypatch.setenv(f"XDG_{kind}", str(home / kind.lower()))
    monkeypatch.setenv("APPLIANCE_MODELS", str(MODELS_DIR))


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock on which nobody waits."""
    return VirtualClock()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of evaluation data beside the repository."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder shared with evaluation data is not beside the repository")
    return folder


@pytest.fixture(scope="session")
def starter_weights() -> Path:
    """The weights file of the starter model."""
    return stored_model(STARTER)


@pytest.fixture(scope="session")
def gemma_weights() -> Path:
    """The weights file of Gemma 3 270M, the second model of the engine's tests."""
    return stored_model(GEMMA)


@pytest.fixture(scope="session")
def embedder_folder() -> Path:
    """The folder with the files of the embedder."""
    return stored_model(EMBEDDER)


def stored_model(name: str) -> Path:
    """Return where a model of the store lies, or skip the test."""
    from appliance.catalog.catalog import Catalog
    from appliance.catalog.store import ModelStore

    try:
        return Catalog(ModelStore(MODELS_DIR)).local(name).path
    except ApplianceError as exc:
        pytest.skip(f"{exc.message}; {exc.hint}")


@pytest.fixture
def run_cli() -> RunCli:
    """Run the command line in a process of its own, with no terminal."""

    def run(
        *arguments: str,
        stdin: str | bytes = "",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        finished = subprocess.run(
            [sys.executable, "-m", "appliance", *arguments],
            input=given,
            capture_output=True,
            timeout=timeout_s,
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        return subprocess.CompletedProcess(
            finished.args, finished.returncode, finished.stdout.decode(), finished.stderr.decode()
        )

    return run


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def starter_engine(starter_weights: Path) -> AsyncIterator[Engine]:
    """The starter model in a worker that engine tests share; they run in the session's event loop."""
    from tests.engine_calls import open_engine

    # What an earlier test left is not kept for ever: a prefix that was computed in larger passes rounds differently.
    engine = open_engine(starter_weights, prefix_ram_bytes=0)
    yield engine
    await engine.close()
