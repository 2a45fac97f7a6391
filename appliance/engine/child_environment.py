"""The environment of the processes that hold weights."""

from __future__ import annotations

import os
from pathlib import Path

import appliance


def child_environment() -> dict[str, str]:
    """Return this process's environment, with the package found first and nothing fetched or attached."""
    environment = dict(os.environ)
    package_root = str(Path(appliance.__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(
        [package_root, *filter(None, [environment.get("PYTHONPATH")])]
    )
    environment["GGML_NO_BACKTRACE"] = "1"  # ggml would attach a debugger to itself when it aborts
    environment["HF_HUB_OFFLINE"] = "1"
    return environment
