"""Importing the package and asking for help load none of the heavy libraries."""

import subprocess
import sys

import pytest

HEAVY = (
    "llama_cpp", "outlines", "outlines_core", "llguidance", "lancedb", "fastembed", "onnxruntime", "textual",
    "fastapi", "uvicorn", "numpy", "pydantic", "httpx", "huggingface_hub", "psutil", "asyncio",
)  # fmt: skip

TRIALS = {
    "import": "import appliance",
    "help": "from appliance.cli import main; assert main(['--help']) == 0",
    "version": "from appliance.cli import main; assert main(['--version']) == 0",
    "config": "from appliance.cli import main; assert main(['config', '--json']) == 0",
}


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS.keys())
def test_no_heavy_library_is_loaded(trial: str) -> None:
    listing = "; import sys; print('\\n'.join(sys.modules), file=sys.stderr)"

    finished = subprocess.run(
        [sys.executable, "-c", trial + listing], capture_output=True, text=True, timeout=60, check=True
    )

    assert set(HEAVY) & set(finished.stderr.split()) == set()


def test_the_app_is_wired_without_any_heavy_library() -> None:
    trial = (
        "import asyncio, sys\n"
        "from appliance.app import build_appliance\n"
        "from appliance.config import load_settings\n"
        "async def main():\n"
        "    async with build_appliance(load_settings()): pass\n"
        "asyncio.run(main())\n"
        "print('\\n'.join(sys.modules))"
    )

    finished = subprocess.run(
        [sys.executable, "-c", trial], capture_output=True, text=True, timeout=60, check=True
    )

    assert (set(HEAVY) - {"asyncio"}) & set(finished.stdout.split()) == set()
