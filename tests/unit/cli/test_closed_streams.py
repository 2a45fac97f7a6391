"""A program started with its streams closed ends as usual, without a traceback."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPOSITORY


def test_closed_standard_output_is_no_error() -> None:
    finished = subprocess.run(
        ["sh", "-c", '"$0" -m appliance config >&- 2>/dev/null', sys.executable],
        cwd=REPOSITORY,
        check=False,
        timeout=60,
    )

    assert finished.returncode == 0
